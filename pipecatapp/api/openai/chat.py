"""`POST /v1/chat/completions`: start a run, give its answer to its caller and to nobody else."""

from collections.abc import Collection
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Request
from pydantic import Field
from starlette.responses import JSONResponse, Response, StreamingResponse

from hearth.openai_api.chat import ChatRequest, Message, Wire
from pipecatapp.api.access import known_caller
from pipecatapp.api.errors import Refused
from pipecatapp.api.openai.answer import Answer
from pipecatapp.api.openai.offers import workflow_for
from pipecatapp.api.parts import Parts, WithParts
from pipecatapp.runs import Document
from pipecatapp.tools.model.behalf import CALLER, kept
from pipecatapp.workflow import Listener, Workflow

router = APIRouter(dependencies=[Depends(known_caller)])

PASSED_ON = ("temperature", "max_tokens", "response_format", "stop")
"""Fields that reach a workflow which has an input of that name."""


class Format(Wire):
    """What an answer shall be: text, or JSON."""

    type: Literal["text", "json_object", "json_schema"]


class AgentRequest(ChatRequest):
    """With `conversation` the history is ours and only the last message of the user counts;
    without it the history is what the caller sends. `max_completion_tokens` is the newer name of
    `max_tokens`.
    """

    messages: Annotated[list[Message], Field(min_length=1)]
    conversation: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    temperature: Annotated[float, Field(ge=0)] | None = None
    max_tokens: Annotated[int, Field(gt=0)] | None = None
    max_completion_tokens: Annotated[int, Field(gt=0)] | None = None
    response_format: Format | None = None
    stop: str | list[str] | None = None
    n: Annotated[int, Field(gt=0)] | None = None
    logprobs: bool | None = None
    functions: list[Any] | None = None

    def passed_on(self) -> dict[str, Any]:
        """The fields of `PASSED_ON` that say something, as inputs of a workflow."""
        told = self.body()
        if told.get("response_format") == {"type": "text"}:
            del told["response_format"]
        if self.max_completion_tokens is not None:
            told["max_tokens"] = self.max_completion_tokens
        return {name: told[name] for name in PASSED_ON if told.get(name) not in (None, "", [])}


@router.post("/v1/chat/completions")
async def chat(body: AgentRequest, request: Request, parts: WithParts) -> Response:
    """Answer with the text of a run of the workflow that the model name stands for."""
    workflow = workflow_for(parts.runs.engine.workflows, body.model)
    inputs = inputs_for(workflow, body)
    listener, told = Listener(), request.headers.get(CALLER)
    run = await parts.start(
        Document(workflow=workflow.id),
        inputs,
        conversation=body.conversation,
        caller="chat",
        listener=listener,
        beside=kept(told) if told else lambda _run: (),
    )
    answer = Answer(parts.runs.engine, run, body.model, listener, told)
    parts.spawn(_cancel_when_gone(request, parts, answer))
    if not body.stream:
        return JSONResponse(await answer.whole(), headers=answer.headers)
    wants_usage = bool(body.stream_options and body.stream_options.include_usage)
    stream = await answer.opened(include_usage=wants_usage)
    return StreamingResponse(stream, media_type="text/event-stream", headers=answer.headers)


def inputs_for(workflow: Workflow, body: AgentRequest) -> dict[str, Any]:
    """The inputs of a run from a request, as far as the workflow has inputs of these names.

    Raises `Refused` for what a workflow cannot honour, rather than to leave it out in silence.
    """
    takes = workflow.input_schema().get("properties", {})
    given = body.passed_on()
    _refuse_what_nobody_honours(body, given.keys() - takes.keys())
    text = body.last_user_text
    if not text:
        raise Refused(400, "no_user_message", "No message of the user has text.", param="messages")
    ours = body.conversation is not None
    inputs: dict[str, Any] = {"messages": [] if ours else [told(m) for m in body.messages]}
    if ours and "conversation" not in takes:
        inputs["messages"] = [{"role": "user", "content": text}]
    inputs["text"] = text
    return {name: value for name, value in (inputs | given).items() if name in takes}


def _refuse_what_nobody_honours(body: AgentRequest, untaken: Collection[str]) -> None:
    """An answer that is not what was asked for would break its program far from here. How freely
    a model samples, and how long it may talk, are wishes."""
    asked = {
        "tools": bool(body.tools),
        "functions": bool(body.functions),
        "n": (body.n or 1) > 1,
        "logprobs": bool(body.logprobs),
        "response_format": "response_format" in untaken,
        "stop": "stop" in untaken,
    }
    for name in (name for name, wanted in asked.items() if wanted):
        own = "brings its own tools" if name in ("tools", "functions") else f"takes no `{name}`"
        message = f"{body.model!r} {own}; for that, ask an expert or 'auto'."
        raise Refused(400, "unsupported_field", message, param=name)


def told(message: Message) -> dict[str, Any]:
    """A message as every model server knows it: the newer `developer` is `system` to most."""
    role = "system" if message.role == "developer" else message.role
    return message.body() | {"role": role}


async def _cancel_when_gone(request: Request, parts: Parts, answer: Answer) -> None:
    """Stop the run when its caller hangs up; a stop of the service leaves it to be resumed.

    The server says `http.disconnect` after a complete answer too; the run has ended by then, or
    waits for a person and goes on without its caller.
    """
    while (await request.receive())["type"] != "http.disconnect":
        pass
    if not parts.stop.asked and answer.asked is None:
        await parts.runs.engine.cancel(answer.run)
