"""Conversion of a request to `/v1/responses` to the equivalent chat request."""

from dataclasses import dataclass
from typing import Any, Final

import orjson

from hearth.service.http_errors import Refused
from moe_gateway.errors import invalid_field, unsupported_field
from moe_gateway.responses.items import Conversation
from moe_gateway.responses.store import KeyResponses
from moe_gateway.responses.tools import chat_tools, functions_of
from moe_gateway.routing.turns import strict

Json = dict[str, Any]

UNSUPPORTED: Final = {
    "conversation": "no conversation is kept; send `previous_response_id` or the whole input",
    "prompt": "no prompt is kept; send the input itself",
    "background": "nothing goes on when its caller has gone; ask for a stream",
    "background_options": "nothing goes on when its caller has gone",
    "context_management": "no input is made shorter here",
    "image": "no image is made here",
    "access_programs": "they are of OpenAI's own service",
}
"""Fields that OpenAI defines, and what to do without them."""

RENAMED: Final = {"max_output_tokens": "max_tokens"}
READ: Final = ("input", "instructions", "text", "tools", "tool_choice", "reasoning", "include")
OF_OPENAI: Final = (
    *("truncation", "max_tool_calls", "service_tier", "safety_identifier"),
    *("prompt_cache_options", "prompt_cache_retention"),
)
"""Options of OpenAI's own service that many clients always send; here they have no effect."""
KEPT: Final = ("store", "previous_response_id")
OURS: Final = frozenset(
    (*READ, *KEPT, "stream_options", "top_logprobs", *UNSUPPORTED, *RENAMED, *OF_OPENAI)
)
"""Fields that are mapped or handled here; every other field is passed on."""

LOGPROBS: Final = "message.output_text.logprobs"
OPAQUE_REASONING: Final = "reasoning.encrypted_content"


@dataclass(frozen=True)
class Request:
    """A parsed request.

    `chat` is the body for `/v1/chat/completions`. `items` is its input with references resolved,
    and `before` are the earlier turns of the conversation. `tools` are the active tools, and
    `dropped` the kinds of removed ones.
    """

    fields: Json
    chat: Json
    items: list[Json]
    before: tuple[bytes, ...]
    tools: list[Json]
    dropped: list[str]

    @property
    def notice(self) -> str:
        """Return what its caller has to know, for the route reason."""
        listed = ", ".join(dict.fromkeys(self.dropped))
        return f"; left out tools of the kind {listed}" if listed else ""

    @property
    def seals_reasoning(self) -> bool:
        """Whether its caller wants reasoning in the form that it sends back."""
        return OPAQUE_REASONING in (self.fields.get("include") or [])


def read_request(fields: Json, stored: KeyResponses) -> Request:
    """Read a request of the key with these stored responses.

    Raises `Refused` for what chat cannot do, and for references to what is not stored.
    """
    for name, reason in UNSUPPORTED.items():
        if fields.get(name):
            raise unsupported_field(name, reason)
    turns, items = _before(fields, stored), _own_items(fields.get("input"), stored)
    conversation = Conversation()
    for item in (item for turn in turns for item in orjson.loads(turn)):
        conversation.add(item, "previous_response_id")
    for place, item in enumerate(items):
        conversation.add(item, f"input[{place}]")
    functions, dropped = functions_of(fields.get("tools"))
    body = {name: value for name, value in fields.items() if name not in OURS}
    for ours, theirs in RENAMED.items():
        if fields.get(ours) is not None:
            body[theirs] = fields[ours]
    body["messages"] = strict(_instructions(fields) + conversation.messages())
    body |= chat_tools(functions, fields.get("tool_choice"), dropped=bool(dropped))
    body |= _format(fields) | _logprobs(fields) | _reasoning(fields)
    if fields.get("stream"):
        body["stream_options"] = {"include_usage": True}
    return Request(fields, body, items, turns, functions, dropped)


def _before(fields: Json, stored: KeyResponses) -> tuple[bytes, ...]:
    """Return the turns of the response `previous_response_id`."""
    name = fields.get("previous_response_id")
    if name is None:
        return ()
    previous = stored.get(name) if isinstance(name, str) else None
    if previous is None:
        raise Refused(
            400,
            "previous_response_not_found",
            f"Previous response with id {str(name)[:100]!r} not found: its time is over, or it was"
            " not stored for this key. Send the whole input.",
            param="previous_response_id",
        )
    return previous.turns


def _own_items(given: Any, stored: KeyResponses) -> list[Json]:
    """The items of `input`: text, or a list of items."""
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    if not isinstance(given, list) or not given:
        raise invalid_field("input", "text or a list of items")
    return [_resolved(item, place, stored) for place, item in enumerate(given)]


def _resolved(item: Any, place: int, stored: KeyResponses) -> Any:
    """The item, or what it refers to by its id; clients may leave the type of a reference out."""
    if not isinstance(item, dict):
        return item
    bare = item.get("type") is None and item.keys() <= {"id", "type"}
    if not bare and item.get("type") != "item_reference":
        return item
    found = stored.item(str(item.get("id")))
    if found is None:
        raise Refused(
            404,
            "item_not_found",
            f"Item with id {str(item.get('id'))[:100]!r} not found: its time is over, or it was not"
            " stored for this key. Send the item itself.",
            param=f"input[{place}]",
        )
    return found


def _instructions(fields: Json) -> list[Json]:
    text = fields.get("instructions")
    if text is None:
        return []
    if not isinstance(text, str):
        raise invalid_field("instructions", "text")
    return [{"role": "system", "content": text}]


def _format(fields: Json) -> Json:
    text = fields.get("text") or {}
    if not isinstance(text, dict):
        raise invalid_field("text", "an object")
    found: Json = {"verbosity": text["verbosity"]} if text.get("verbosity") else {}
    wanted = text.get("format") or {"type": "text"}
    kind = wanted.get("type") if isinstance(wanted, dict) else None
    if kind not in ("text", "json_object", "json_schema"):
        raise unsupported_field("text.format", "known are text, json_object and json_schema")
    if kind == "json_schema":
        schema = {name: value for name, value in wanted.items() if name != "type"}
        found["response_format"] = {"type": "json_schema", "json_schema": schema}
    elif kind == "json_object":
        found["response_format"] = {"type": "json_object"}
    return found


def _reasoning(fields: Json) -> Json:
    reasoning = fields.get("reasoning") or {}
    if not isinstance(reasoning, dict):
        raise invalid_field("reasoning", "an object")
    return {"reasoning_effort": reasoning["effort"]} if reasoning.get("effort") else {}


def _logprobs(fields: Json) -> Json:
    included = fields.get("include") or []
    if not isinstance(included, list):
        raise invalid_field("include", "a list")
    if fields.get("top_logprobs") is not None:
        return {"logprobs": True, "top_logprobs": fields["top_logprobs"]}
    return {"logprobs": True} if LOGPROBS in included else {}
