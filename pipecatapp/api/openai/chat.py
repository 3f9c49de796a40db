"""`POST /v1/chat/completions`: start a run and stream its answer to this caller only."""

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, Literal

from fastapi import Depends, Request
from pydantic import Field
from starlette.responses import JSONResponse, Response, StreamingResponse

from hearth.openai_api.chat import ChatRequest, Message, Wire
from hearth.service.http_errors import Refused
from pipecatapp.api.access import known_caller
from pipecatapp.api.openai.answer import Answer
from pipecatapp.api.openai.media import kinds_of, refuse_dropped
from pipecatapp.api.openai.offers import scope_of, workflow_for
from pipecatapp.api.parts import Parts, WithParts
from pipecatapp.api.routing import api_router
from pipecatapp.application.callers import CALLER, kept, owner_of
from pipecatapp.application.engine import Engine, Listener, Workflow
from pipecatapp.application.registry import AGENT, AGENT_WORKFLOW, AUTONOMY_WORKFLOW
from pipecatapp.application.runs import Document

router = api_router(dependencies=[Depends(known_caller)])

WISHES = (
    *("temperature", "max_tokens", "top_p", "seed", "frequency_penalty", "presence_penalty"),
    *("reasoning_effort", "verbosity"),
)
"""Options of a model call. A workflow without such an input ignores them, and the header
`x-hearth-ignored` lists them."""
PASSED_ON = (*WISHES, "response_format", "stop")
"""Fields that reach a workflow which has an input of that name."""


TOOLS = frozenset(("functions", "tool_choice", "function_call"))


class Format(Wire):
    """The requested format of the answer: text or JSON."""

    type: Literal["text", "json_object", "json_schema"]


class AgentRequest(ChatRequest):
    """With `conversation` the history is ours and only the last message of the user counts;
    without it the history is what the caller sends. `max_completion_tokens` is the newer name of
    `max_tokens`. `self_autonomy` lets a model write a workflow for the last message of the user,
    which runs after a question; it is for the agent only.
    """

    messages: Annotated[list[Message], Field(min_length=1)]
    conversation: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    temperature: Annotated[float, Field(ge=0)] | None = None
    max_tokens: Annotated[int, Field(gt=0)] | None = None
    max_completion_tokens: Annotated[int, Field(gt=0)] | None = None
    response_format: Format | None = None
    stop: str | list[str] | None = None
    n: Annotated[int, Field(gt=0)] | None = None
    logprobs: bool | int | None = None
    top_logprobs: int | None = None
    logit_bias: dict[str, float] | None = None
    functions: list[Any] | None = None
    function_call: str | dict[str, Any] | None = None
    modalities: list[str] | None = None
    audio: dict[str, Any] | None = None
    web_search_options: dict[str, Any] | None = None
    self_autonomy: bool = False

    def passed_on(self) -> dict[str, Any]:
        """Return the fields of `PASSED_ON` that are set, as inputs of a workflow."""
        told = self.body()
        if told.get("response_format") == {"type": "text"}:
            del told["response_format"]
        if self.max_completion_tokens is not None:
            told["max_tokens"] = self.max_completion_tokens
        return {name: told[name] for name in PASSED_ON if told.get(name) not in (None, "", [])}


@router.post("/v1/chat/completions")
async def chat(body: AgentRequest, request: Request, parts: WithParts) -> Response:
    """Answer with the text of a run of the workflow of this model name."""
    return await answered(body, request, parts, Answer)


async def answered(
    body: AgentRequest, request: Request, parts: Parts, kind: type[Answer]
) -> Response:
    """Run the workflow and answer in the form of this `kind`, whole or as a stream."""
    listener = Listener()
    run = await start(body, request, parts, listener)
    behalf, has_media = request.headers.get(CALLER), bool(kinds_of(body.messages))
    engine = parts.runs.engine
    ignored = ignored_of(workflow_of(engine, body), body)
    answer = kind(engine, run, body.model, listener, behalf, ignored, has_media=has_media)
    parts.spawn(_cancel_when_gone(request, parts, answer))
    if not body.stream:
        return JSONResponse(await answer.whole(), headers=answer.headers)
    wants_usage = bool(body.stream_options and body.stream_options.include_usage)
    stream = await answer.opened(include_usage=wants_usage)
    return StreamingResponse(stream, media_type="text/event-stream", headers=answer.headers)


async def start(
    body: AgentRequest,
    request: Request,
    parts: Parts,
    listener: Listener | None = None,
    *,
    instead_of: str | None = None,
    more: Mapping[str, Any] | None = None,
    layers: Sequence[str] = (),
) -> str:
    """Start the run that answers a request and return its id. In a conversation it is the next
    turn, or another version of the turn `instead_of`. `more` are additional inputs; `layers` are
    for the workflow.

    Raises `Refused` for an unknown model, for fields that its workflow does not support, and for
    the conversation of another caller.
    """
    workflow = workflow_of(parts.runs.engine, body)
    inputs, kinds = inputs_for(workflow, body), kinds_of(body.messages)
    ours, plan = body.conversation is not None, parts.runs.engine.plan(workflow)
    refuse_dropped(body.model, kinds, plan, conversation=ours)
    behalf = request.headers.get(CALLER)
    await _own_conversation(body, parts, owner_of(behalf or ""))
    document, given = parts.home.turn(
        Document(workflow=workflow.id, layers=list(layers)),
        {**inputs, **(more or {})},
        body.last_user_text or "",
        plain=not kinds,
    )
    return await parts.runs.start(
        document,
        given,
        conversation=body.conversation,
        caller="chat",
        listener=listener,
        beside=kept(behalf) if behalf else lambda _run: (),
        instead_of=instead_of,
    )


def workflow_of(engine: Engine, body: AgentRequest) -> Workflow:
    """The workflow that answers a request.

    Raises `Refused` for an unknown model, and for `self_autonomy` with another model than the agent
    or where keys for the agent must not use the workflow that writes workflows.
    """
    if not body.self_autonomy:
        return workflow_for(engine.workflows, body.model)
    if body.model != AGENT:
        message = f"`self_autonomy` is for the model {AGENT!r}, not for {body.model!r}."
        raise Refused(400, "unsupported_field", message, param="self_autonomy")
    if scope_of(engine, AUTONOMY_WORKFLOW) != scope_of(engine, AGENT_WORKFLOW):
        message = f"Rights for {AGENT!r} do not cover `self_autonomy` here; start it as a run."
        raise Refused(403, "permission_denied", message, param="self_autonomy")
    return engine.workflows[AUTONOMY_WORKFLOW]


async def _own_conversation(body: AgentRequest, parts: Parts, owner: str) -> None:
    """Refuse (404) a conversation of another caller, as one that does not exist."""
    name = body.conversation
    if name is None:
        return
    if not await parts.conversations.claim(name, owner, body.last_user_text or ""):
        message = f"There is no conversation {name!r}."
        raise Refused(404, "conversation_not_found", message, param="conversation")


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


def ignored_of(workflow: Workflow, body: AgentRequest) -> list[str]:
    """Return the options of a request for which its workflow has no input, and `tools`.

    A model need not use the functions that a caller offers, and a workflow uses its own. They are
    ignored unless `tool_choice` demands a call: Home Assistant offers functions to every model.
    """
    takes, given = workflow.input_schema().get("properties", {}), body.passed_on()
    wishes = [name for name in WISHES if name in given and name not in takes]
    return wishes + ["tools"] * bool(body.tools)


def _refuse_what_nobody_honours(body: AgentRequest, untaken: Collection[str]) -> None:
    """Refuse fields that change the format of an answer: ignoring them would break the client
    later. Sampling options and length limits may be ignored."""
    asked = {
        "functions": bool(body.functions),
        "tool_choice": body.tool_choice not in (None, "auto", "none"),
        "function_call": body.function_call not in (None, "auto", "none"),
        "n": (body.n or 1) > 1,
        "logprobs": body.logprobs is not None and body.logprobs is not False,
        "top_logprobs": body.top_logprobs is not None,
        "logit_bias": bool(body.logit_bias),
        "modalities": any(one != "text" for one in body.modalities or ()),
        "audio": body.audio is not None,
        "web_search_options": body.web_search_options is not None,
        "response_format": "response_format" in untaken,
        "stop": "stop" in untaken,
    }
    for name in (name for name, wanted in asked.items() if wanted):
        own = "brings its own tools" if name in TOOLS else f"takes no `{name}`"
        message = f"{body.model!r} {own}; for that, ask an expert or 'auto'."
        raise Refused(400, "unsupported_field", message, param=name)


def told(message: Message) -> dict[str, Any]:
    """Convert a message for all model servers: most of them know only `system`, not `developer`."""
    role = "system" if message.role == "developer" else message.role
    return message.body() | {"role": role}


async def _cancel_when_gone(request: Request, parts: Parts, answer: Answer) -> None:
    """Cancel the run when its caller disconnects; when the service stops, it is resumed later.

    The server sends `http.disconnect` also after a complete answer; the run has then ended, or
    waits for a person and continues without its caller.
    """
    while (await request.receive())["type"] != "http.disconnect":
        pass
    if not parts.stop.asked and answer.asked is None:
        await parts.runs.engine.cancel(answer.run)
