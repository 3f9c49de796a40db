"""The items of a response's input as the messages of a chat."""

from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Callable, Mapping
from typing import Any, Final

from moe_gateway.errors import invalid_field, unsupported_field

Json = dict[str, Any]

OPAQUE: Final = "hearth.reasoning.1:"
"""Prefix of the `encrypted_content` of our reasoning items. It contains the text in base64,
because clients that store nothing here (`store: false`) send back only this field."""

TEXT_FILES: Final = ("text/", "application/json", "application/xml", "application/yaml")


def text_of(item: Json, name: str, place: str) -> str:
    """Return a field that has to be text. Raises `Refused` (400)."""
    value = item.get(name)
    if not isinstance(value, str):
        raise invalid_field(f"{place}.{name}", "text")
    return value


def sealed(thought: str) -> str:
    """Return the `encrypted_content` of a reasoning item."""
    return OPAQUE + b64encode(thought.encode()).decode()


class Conversation:
    """Converts items to messages. Reasoning is added to the message that follows it."""

    def __init__(self) -> None:
        self._messages: list[Json] = []
        self._thought = ""

    def add(self, item: Any, place: str) -> None:
        """Add one item; `place` names it in a refusal. Raises `Refused` (400)."""
        if not isinstance(item, dict):
            raise invalid_field(place, "an object")
        kind = item.get("type", "message")
        if not isinstance(kind, str) or kind not in _ITEMS:
            raise unsupported_field(
                f"{place}.type {str(kind)[:50]!r}", f"known are {', '.join(_ITEMS)}"
            )
        _ITEMS[kind](self, item, place)

    def messages(self) -> list[Json]:
        """Return all messages."""
        self._end_thought()
        return self._messages

    def add_message(self, item: Json, place: str) -> None:
        role = item.get("role")
        if role not in ("user", "assistant", "system", "developer"):
            raise invalid_field(f"{place}.role", "one of user, assistant, system, developer")
        content = _content(item, "content", place)
        if role == "assistant":
            self._messages.append(self._with_thought({"role": role, "content": content}))
        else:
            self._end_thought()
            role = "system" if role == "developer" else role
            self._messages.append({"role": role, "content": content})

    def add_call(self, item: Json, place: str) -> None:
        """Add a call; consecutive calls of a model belong to one turn."""
        call = {
            "id": text_of(item, "call_id", place),
            "type": "function",
            "function": {
                "name": text_of(item, "name", place),
                "arguments": text_of(item, "arguments", place),
            },
        }
        last = self._messages[-1] if self._messages else {}
        if last.get("role") != "assistant":
            last = {"role": "assistant", "content": None}
            self._messages.append(last)
        self._with_thought(last).setdefault("tool_calls", []).append(call)

    def add_result(self, item: Json, place: str) -> None:
        self._end_thought()
        content, call = _content(item, "output", place), text_of(item, "call_id", place)
        self._messages.append({"role": "tool", "tool_call_id": call, "content": content})

    def add_reasoning(self, item: Json, place: str) -> None:
        self._thought += _thought(item, place)

    def _with_thought(self, message: Json) -> Json:
        """Add the reasoning that precedes this message of the model."""
        if self._thought:
            message["reasoning_content"] = message.get("reasoning_content", "") + self._thought
            self._thought = ""
        return message

    def _end_thought(self) -> None:
        """Add pending reasoning without an answer as a separate message."""
        if self._thought:
            self._messages.append(self._with_thought({"role": "assistant", "content": ""}))


_ITEMS: Final[Mapping[str, Callable[[Conversation, Json, str], None]]] = {
    "message": Conversation.add_message,
    "function_call": Conversation.add_call,
    "function_call_output": Conversation.add_result,
    "reasoning": Conversation.add_reasoning,
}


def _thought(item: Json, place: str) -> str:
    """Return the text of a reasoning item: its own, else that of our opaque field, else its
    summary. Content encrypted by another service cannot be read."""
    opaque = item.get("encrypted_content")
    parts = item.get("content") or []
    if not parts and isinstance(opaque, str) and opaque.startswith(OPAQUE):
        try:
            return b64decode(opaque.removeprefix(OPAQUE), validate=True).decode()
        except (NotBase64, UnicodeDecodeError) as error:
            raise invalid_field(f"{place}.encrypted_content", "from this gateway") from error
    parts = parts or item.get("summary") or []
    if not isinstance(parts, list):
        raise invalid_field(f"{place}.content", "a list of parts")
    return "".join(str(part.get("text") or "") for part in parts if isinstance(part, dict))


def _content(item: Json, name: str, place: str) -> str | list[Json]:
    """Text where it is nothing but text, since some servers take no parts; else all the parts."""
    given = item.get(name)
    if isinstance(given, str):
        return given
    if not isinstance(given, list):
        raise invalid_field(f"{place}.{name}", "text or a list of parts")
    parts = [_part(part, f"{place}.{name}[{n}]") for n, part in enumerate(given)]
    if all(part["type"] == "text" for part in parts):
        return "".join(part["text"] for part in parts)
    return parts


def _part(part: Any, place: str) -> Json:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind in ("input_text", "output_text", "text", "refusal"):
        name = "refusal" if kind == "refusal" else "text"
        return {"type": "text", "text": text_of(part, name, place)}
    if kind == "input_image" and part.get("image_url"):
        detail = {"detail": part["detail"]} if part.get("detail") else {}
        return {"type": "image_url", "image_url": {"url": part["image_url"], **detail}}
    if kind == "input_audio":
        return {"type": "input_audio", "input_audio": part.get("input_audio")}
    if kind == "input_file":
        return _file(part, place)
    raise unsupported_field(
        f"{place}.type {str(kind)[:50]!r}",
        "known are input_text, input_image with a URL, input_file with its data, input_audio",
    )


def _file(part: Json, place: str) -> Json:
    """A file as a part of a chat: a text file as text, which every model reads; others as a file,
    for the server to judge."""
    data, name = part.get("file_data"), str(part.get("filename") or "file")
    if not isinstance(data, str) or not data.startswith("data:"):
        raise unsupported_field(
            f"{place}", "send the file itself: `file_data` with `data:TYPE;base64,…`"
        )
    head, _, encoded = data.removeprefix("data:").partition(",")
    if not head.startswith(TEXT_FILES) or not head.endswith(";base64"):
        return {"type": "file", "file": {"filename": name, "file_data": data}}
    try:
        text = b64decode(encoded, validate=True).decode()
    except (NotBase64, UnicodeDecodeError) as error:
        raise invalid_field(f"{place}.file_data", "text in UTF-8 and base64") from error
    return {"type": "text", "text": f"File {name}:\n{text}\n"}
