"""A request to `/v1/responses` as the chat request that asks the same.

Nothing is kept between two requests, so what refers to earlier ones is refused, not left out.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from moe_gateway.errors import Refused, invalid_json, nested_too_deeply

Json = dict[str, Any]

STATEFUL: Final = ("previous_response_id", "conversation", "prompt", "background")
"""They need answers or prompts that a server has kept, or goes on with alone."""

RENAMED: Final = {"max_output_tokens": "max_tokens"}
READ: Final = ("input", "instructions", "text", "tools", "tool_choice", "reasoning", "include")
OURS: Final = frozenset(
    (*READ, "store", "truncation", "stream_options", "top_logprobs", *STATEFUL, *RENAMED)
)
"""What is mapped or answered here; every other field passes through."""

LOGPROBS: Final = "message.output_text.logprobs"


def chat_of(asked: Json) -> Json:
    """The body for `/v1/chat/completions`. Raises `Refused` (400) for what chat cannot do."""
    for name in STATEFUL:
        if asked.get(name):
            raise unsupported(name, "nothing is kept between two requests; send the whole input")
    if asked.get("truncation") == "auto":
        raise unsupported("truncation", "no part of the input is left out; shorten it yourself")
    body = {name: value for name, value in asked.items() if name not in OURS}
    for ours, theirs in RENAMED.items():
        if asked.get(ours) is not None:
            body[theirs] = asked[ours]
    body["messages"] = _instructions(asked) + messages_of(asked.get("input"))
    body |= _tools(asked) | _format(asked) | _logprobs(asked) | _reasoning(asked)
    if asked.get("stream"):
        body["stream_options"] = {"include_usage": True}
    return body


def encoded(body: Json) -> bytes:
    """A body as bytes. Raises `Refused` (400)."""
    try:
        return orjson.dumps(body)
    except TypeError as error:  # orjson reads more levels than it writes.
        raise nested_too_deeply() from error


def decoded(data: bytes) -> Json:
    """The request as an object; `Refused` (400) when it is none."""
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise invalid_json(str(error).rstrip(".")) from error
    if not isinstance(found, dict):
        raise Refused(400, None, "The request does not fit: it is no JSON object.")
    return found


def unsupported(param: str, reason: str) -> Refused:
    return Refused(400, "unsupported_field", f"{param} does not work here: {reason}.", param=param)


def wrong(param: str, wanted: str) -> Refused:
    return Refused(400, None, f"The request does not fit: {param} is no {wanted}.", param=param)


def _instructions(asked: Json) -> list[Json]:
    text = asked.get("instructions")
    if text is None:
        return []
    if not isinstance(text, str):
        raise wrong("instructions", "text")
    return [{"role": "system", "content": text}]


def messages_of(given: Any) -> list[Json]:
    """The turns of a chat from `input`: text, or a list of items."""
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    if not isinstance(given, list) or not given:
        raise wrong("input", "text and no list of items")
    messages: list[Json] = []
    for place, item in enumerate(given):
        _add(messages, item, f"input[{place}]")
    return messages


def _add(messages: list[Json], item: Any, place: str) -> None:
    if not isinstance(item, dict):
        raise wrong(place, "item")
    kind = item.get("type", "message")
    if not isinstance(kind, str) or kind not in _ITEMS:
        raise unsupported(f"{place}.type {str(kind)[:50]!r}", f"known are {', '.join(_ITEMS)}")
    _ITEMS[kind](messages, item, place)


def _add_message(messages: list[Json], item: Json, place: str) -> None:
    role = item.get("role")
    if role not in ("user", "assistant", "system", "developer"):
        raise wrong(f"{place}.role", "role")
    role = "system" if role == "developer" else role
    messages.append({"role": role, "content": _content(item, "content", place)})


def _add_call(messages: list[Json], item: Json, place: str) -> None:
    """Calls that a model made at once are one turn of it."""
    call = {
        "id": _text(item, "call_id", place),
        "type": "function",
        "function": {
            "name": _text(item, "name", place),
            "arguments": _text(item, "arguments", place),
        },
    }
    last = messages[-1] if messages else {}
    if last.get("role") != "assistant":
        last = {"role": "assistant", "content": None}
        messages.append(last)
    last.setdefault("tool_calls", []).append(call)


def _add_result(messages: list[Json], item: Json, place: str) -> None:
    content, call = _content(item, "output", place), _text(item, "call_id", place)
    messages.append({"role": "tool", "tool_call_id": call, "content": content})


def _pass_over(messages: list[Json], item: Json, place: str) -> None:
    """What a model thought before is for itself; chat servers do not take it back."""


_ITEMS: Final[Mapping[str, Callable[[list[Json], Json, str], None]]] = {
    "message": _add_message,
    "function_call": _add_call,
    "function_call_output": _add_result,
    "reasoning": _pass_over,
}


def _content(item: Json, name: str, place: str) -> str | list[Json]:
    """Text where it is nothing but text, since some servers take no parts; else all the parts."""
    given = item.get(name)
    if isinstance(given, str):
        return given
    if not isinstance(given, list):
        raise wrong(f"{place}.{name}", "text and no list of parts")
    parts = [_part(part, f"{place}.{name}[{n}]") for n, part in enumerate(given)]
    if all(part["type"] == "text" for part in parts):
        return "".join(part["text"] for part in parts)
    return parts


def _part(part: Any, place: str) -> Json:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind in ("input_text", "output_text", "text"):
        return {"type": "text", "text": _text(part, "text", place)}
    if kind == "refusal":
        return {"type": "text", "text": _text(part, "refusal", place)}
    if kind == "input_image" and part.get("image_url"):
        detail = {"detail": part["detail"]} if part.get("detail") else {}
        return {"type": "image_url", "image_url": {"url": part["image_url"], **detail}}
    if kind == "input_audio":
        return {"type": "input_audio", "input_audio": part.get("input_audio")}
    raise unsupported(
        f"{place}.type {str(kind)[:50]!r}",
        "known are input_text, input_image with a URL, input_audio",
    )


def _text(item: Json, name: str, place: str) -> str:
    value = item.get(name)
    if not isinstance(value, str):
        raise wrong(f"{place}.{name}", "text")
    return value


def _tools(asked: Json) -> Json:
    tools, choice = asked.get("tools"), asked.get("tool_choice")
    found: Json = {}
    if tools is not None and not isinstance(tools, list):
        raise wrong("tools", "list")
    if tools:
        found["tools"] = [_tool(tool, f"tools[{n}]") for n, tool in enumerate(tools)]
    if isinstance(choice, dict):
        if choice.get("type") != "function":
            raise unsupported("tool_choice", "only functions can be chosen")
        name = _text(choice, "name", "tool_choice")
        choice = {"type": "function", "function": {"name": name}}
    elif not isinstance(choice, str | None):
        raise wrong("tool_choice", "text and no object")
    return found if choice is None else found | {"tool_choice": choice}


def _tool(tool: Any, place: str) -> Json:
    if not isinstance(tool, dict) or tool.get("type") != "function":
        raise unsupported(place, "only tools of type function can be called from here")
    function = {
        name: tool[name]
        for name in ("name", "description", "parameters", "strict")
        if tool.get(name) is not None
    }
    return {"type": "function", "function": function}


def _format(asked: Json) -> Json:
    text = asked.get("text") or {}
    if not isinstance(text, dict):
        raise wrong("text", "object")
    found: Json = {"verbosity": text["verbosity"]} if text.get("verbosity") else {}
    wanted = text.get("format") or {"type": "text"}
    kind = wanted.get("type") if isinstance(wanted, dict) else None
    if kind not in ("text", "json_object", "json_schema"):
        raise unsupported("text.format", "known are text, json_object and json_schema")
    if kind == "json_schema":
        schema = {name: value for name, value in wanted.items() if name != "type"}
        found["response_format"] = {"type": "json_schema", "json_schema": schema}
    elif kind == "json_object":
        found["response_format"] = {"type": "json_object"}
    return found


def _reasoning(asked: Json) -> Json:
    reasoning = asked.get("reasoning") or {}
    if not isinstance(reasoning, dict):
        raise wrong("reasoning", "object")
    return {"reasoning_effort": reasoning["effort"]} if reasoning.get("effort") else {}


def _logprobs(asked: Json) -> Json:
    if asked.get("top_logprobs") is not None:
        return {"logprobs": True, "top_logprobs": asked["top_logprobs"]}
    included = asked.get("include") or []
    if not isinstance(included, list):
        raise wrong("include", "list")
    return {"logprobs": True} if LOGPROBS in included else {}
