"""Questions of a run (`human.ask`) as elicitations of the protocol.

In the era of 2026-07-28 the result of the call requests the input, and the client calls again with
the answer and the state. Earlier, the server asks the client during the call.
"""

import json
from dataclasses import asdict, dataclass
from typing import Any, Final

from mcp.server.context import ServerRequestContext
from mcp.types import (
    ClientCapabilities,
    ElicitationCapability,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
)
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from pipecatapp.application.engine import Event

ANSWER: Final = "answer"
"""The name of the request, and of the field with the answer."""
KINDS: Final = {None: "string", "text": "string", "integer": "integer", "number": "number",
                "boolean": "boolean"}  # fmt: skip
"""Types of answers that a form of the protocol can have."""

LONGEST_QUESTION: Final = 4000
"""Characters that a client shows; a person must not approve what is cut off."""

Ctx = ServerRequestContext[Any, Any]


@dataclass(frozen=True)
class Asked:
    """A question of a run, as the client keeps it until the answer."""

    run: str
    path: str
    seq: int
    """The number of its event: what happens afterwards has greater ones."""

    def text(self) -> str:
        """Return the state for the client; the SDK encrypts and authenticates it."""
        return json.dumps(asdict(self))


def read_state(state: str) -> Asked:
    """Return the question of a state that the SDK has verified."""
    return Asked(**json.loads(state))


def form_of(event: Event) -> ElicitRequestFormParams | None:
    """Return the form of a question; None where its answer has no form, where it is too long, or
    where a person has to answer at the instance itself (locks, doors, payments)."""
    question = event.data["question"]
    returns = question.get("returns")
    kind = KINDS.get(returns) if returns is None or isinstance(returns, str) else None
    if kind is None or question.get("by_voice") is False:
        return None
    field: dict[str, Any] = {"type": kind, "title": "Answer"}
    if question.get("choices"):
        field["enum"] = list(question["choices"])
    schema = {"type": "object", "properties": {ANSWER: field}, "required": [ANSWER]}
    text = question["text"]
    if question.get("show") is not None:
        text = f"{text}\n\n{json.dumps(question['show'], ensure_ascii=False, indent=1)}"
    if len(text) > LONGEST_QUESTION:
        return None
    return ElicitRequestFormParams(message=text, requested_schema=schema)


def can_ask(ctx: Ctx) -> bool:
    """Return whether the client shows questions to its person."""
    wanted = ClientCapabilities(elicitation=ElicitationCapability())
    return ctx.session.check_client_capability(wanted)


def is_modern(ctx: Ctx) -> bool:
    """Return whether a call returns its question, instead of asking while it runs."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def required(asked: Asked, form: ElicitRequestFormParams) -> InputRequiredResult:
    """Return the result that requests the answer."""
    request = ElicitRequest(params=form)
    return InputRequiredResult(input_requests={ANSWER: request}, request_state=asked.text())


def value_of(result: ElicitResult) -> Any:
    """Return the value of an accepted answer; None if it has none."""
    return (result.content or {}).get(ANSWER)
