"""One question to a model, through the gateway."""

import time
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from hearth.openai_api.assemble import Assembler
from hearth.openai_api.chat import ChatRequest, ToolCall
from hearth.openai_api.client import ModelClient
from hearth.openai_api.errors import ModelError, ModelRefused, ModelUnavailable, message_of
from hearth.openai_api.reading import read_json
from pipecatapp.tools.model.behalf import behalf_of
from pipecatapp.workflow import BY_AUTHOR, Context, ModelFacts, ToolFailed, tool

ANSWERED_BY = "x-hearth-expert"
"""Response header in which the gateway names the expert that answered."""

BAD_REQUEST = 400

MEASURABLE = 0.05
"""Seconds from the first token of an answer to its end, from which on its speed is recorded."""


class CalledTool(BaseModel):
    """A call that the model requests."""

    id: str
    name: str
    arguments: dict[str, Any] | str = Field(
        description="As an object, or the model's text if it is not a JSON object."
    )


class Answer(BaseModel):
    """The answer of the model, and the model that gave it."""

    text: str = Field(description="The whole text; empty where it only calls tools.")
    tool_calls: list[CalledTool] = Field([], description="Tool calls that the model requests.")
    finish_reason: str = Field(description="Why it ended: stop, length, tool_calls …")
    model: str = Field(description="The model that really answered.")


@tool("llm", effect="llm", version=1)
async def llm(
    ctx: Context,
    messages: Annotated[
        list[dict[str, Any]],
        Field(description="The conversation, as OpenAI chat messages.", min_length=1),
    ],
    model: Annotated[
        str, BY_AUTHOR, Field(description="A model that the gateway offers.")
    ] = "auto",
    tools: Annotated[
        list[dict[str, Any]],
        BY_AUTHOR,
        Field(description="Tools that the model may call, in OpenAI's format."),
    ] = [],  # noqa: B006
    temperature: Annotated[float | None, Field(description="How freely it samples.", ge=0)] = None,
    max_tokens: Annotated[
        int | None, BY_AUTHOR, Field(description="Longest answer, in tokens.", gt=0)
    ] = None,
    response_format: Annotated[
        dict[str, Any] | None, Field(description="The form of the answer, as OpenAI names it.")
    ] = None,
    fallback: Annotated[
        list[str],
        BY_AUTHOR,
        Field(description="Models to ask instead, in this order, when it cannot answer."),
    ] = [],  # noqa: B006
) -> Answer:
    """Ask a model to continue a conversation; its words are streamed as they arrive."""
    request = request_of(
        messages, model, tools, temperature, max_tokens, response_format=response_format
    )
    ctx.record(prompt=messages)
    client, speech = ctx.service(ModelClient), _Speech(ctx)
    instead_of: list[dict[str, str]] = []
    for name in (model, *fallback):
        ctx.record(model=name)
        try:
            return await _answer(ctx, client, request.model_copy(update={"model": name}), speech)
        except ModelError as error:
            failed = failure_of(name, error)
            if isinstance(error, ModelRefused) and error.status == BAD_REQUEST:
                ctx.record(refused=refusal_of(error))
            if speech.begun or name == [model, *fallback][-1]:
                raise failed from error
            instead_of.append({"model": name, "because": str(failed)})
            ctx.record(instead_of=instead_of)
    raise ToolFailed("No model is named.")


def refusal_of(error: ModelRefused) -> dict[str, str | None]:
    """Return message, code and field of a status 400, for the client that sent the request."""
    body = error.body.get("error") if isinstance(error.body, dict) else None
    told = body if isinstance(body, dict) else {}
    words = {name: told.get(name) for name in ("code", "param")}
    words = {name: one if isinstance(one, str) else None for name, one in words.items()}
    return {"message": message_of(error.body), **words}


def failure_of(model: str, error: ModelError) -> ToolFailed:
    """Return the error as the run shows it."""
    if isinstance(error, ModelUnavailable):
        hint = "" if error.status else " Is it running? `hearth up` starts it."
        return ToolFailed(f"The gateway does not answer: {error}{hint}")
    if isinstance(error, ModelRefused):
        return ToolFailed(f"The gateway refused model {model!r}: {error}")
    return ToolFailed(f"Model {model!r} did not finish: {error}")


class _Speech:
    """The streamed text. Once it has begun, no other model can replace the answer."""

    def __init__(self, ctx: Context) -> None:
        self._ctx, self.begun = ctx, False

    async def say(self, text: str) -> None:
        self.begun = True
        await self._ctx.say(text)


def request_of(
    messages: list[dict[str, Any]],
    model: str,
    tools: list[dict[str, Any]],
    temperature: float | None,
    max_tokens: int | None,
    *,
    response_format: dict[str, Any] | None = None,
) -> ChatRequest:
    """The request to stream; messages or tools that are none of OpenAI's fail the node."""
    try:
        return ChatRequest.model_validate(
            {
                "model": model,
                "messages": messages,
                "tools": tools or None,
                "temperature": temperature,
                "max_tokens": max_tokens,
                "response_format": response_format,
                "stream_options": {"include_usage": True},
            }
        )
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(str(part) for part in problem["loc"])
        raise ToolFailed(
            f"The messages are not a valid chat ({place}): {problem['msg']}."
        ) from error


async def _answer(
    ctx: Context, client: ModelClient, request: ChatRequest, speech: _Speech
) -> Answer:
    choice, model = await choice_of(ctx, client, request, speech.say)
    message = choice.get("message", {})
    return Answer(
        text=message.get("content") or "",
        tool_calls=[called_tool(call) for call in message.get("tool_calls", [])],
        finish_reason=choice["finish_reason"] or "stop",
        model=model,
    )


async def choice_of(
    ctx: Context, client: ModelClient, request: ChatRequest, say: Callable[[str], Awaitable[None]]
) -> tuple[dict[str, Any], str]:
    """Stream an answer to `say`, record its model, tokens, cost and speed, and return its first
    choice with the model that answered.

    Raises `ModelError`, and `ToolFailed` for an answer without a choice.
    """
    whole, first = Assembler(), None
    async with client.stream(request, headers=behalf_of(ctx)) as chunks:
        answered_by = chunks.headers.get(ANSWERED_BY)
        async for chunk in chunks:
            whole.add(chunk.body())
            if first is None and any(each.delta.body().keys() - {"role"} for each in chunk.choices):
                first = time.monotonic()
            if chunk.text:
                await say(chunk.text)
    completion = whole.completion()
    usage = completion.get("usage") or {}
    model = answered_by or completion.get("model") or request.model
    read, written = usage.get("prompt_tokens"), usage.get("completion_tokens")
    facts = ctx.services.get(ModelFacts)
    price = facts.cost(model) if isinstance(facts, ModelFacts) else 1.0
    cost = price * ((read or 0) + (written or 0))
    ctx.record(model=model, prompt_tokens=read, completion_tokens=written, cost=cost)
    if first is not None and (seconds := time.monotonic() - first) >= MEASURABLE:
        ctx.record(tokens_per_second=round(max(0, (written or 0) - 1) / seconds, 2))
    if not completion["choices"]:
        raise ToolFailed(f"Model {model!r} answered nothing.")
    return completion["choices"][0], model


def called_tool(call: dict[str, Any]) -> CalledTool:
    """A call with its arguments decoded where they are a JSON object."""
    wanted = ToolCall.model_validate(call)
    written = wanted.function.arguments
    try:
        decoded = read_json(written or "{}")
    except ValueError:
        decoded = None
    arguments = decoded if isinstance(decoded, dict) else written
    return CalledTool(id=wanted.id, name=wanted.function.name, arguments=arguments)
