"""The messages of Ollama's API as the messages of a chat."""

from base64 import b64decode
from binascii import Error as NotBase64
from typing import Any, Final

import orjson

from moe_gateway.errors import invalid_field

Json = dict[str, Any]

ROLES: Final = ("system", "user", "assistant", "tool")

IMAGES: Final = {
    b"\x89PNG\r\n\x1a\n": "png",
    b"\xff\xd8\xff": "jpeg",
    b"GIF8": "gif",
    b"RIFF": "webp",
    b"BM": "bmp",
}
"""First bytes of a file -> its media type."""
HEAD: Final = 32
"""Characters of base64 that hold the first bytes of a file."""


class Turns:
    """Collects the messages of a chat.

    Ollama's clients send calls of tools and their results without ids. A call gets the number that
    it has in the conversation as its id, so the same turns become the same bytes each time; a
    result belongs to the first call of its tool that has no result yet.
    """

    def __init__(self) -> None:
        self.messages: list[Json] = []
        self._open: list[tuple[str, str]] = []
        """Id and tool of each call that has no result yet."""
        self._calls = 0

    def add(self, turn: Any, place: str) -> None:
        """Take one message. Raises `Refused` (400)."""
        if not isinstance(turn, dict):
            raise invalid_field(place, "an object")
        role = str(turn.get("role") or "").lower()
        if role not in ROLES:
            raise invalid_field(f"{place}.role", f"one of {', '.join(ROLES)}")
        message: Json = {"role": role, "content": content_of(turn, place)}
        if role == "tool":
            message |= self._result(turn, place)
        if role == "assistant":
            if thinking := text_of(turn, "thinking", place):
                message["reasoning_content"] = thinking
            if calls := turn.get("tool_calls"):
                message["tool_calls"] = self._called(calls, place)
        self.messages.append(message)

    def _called(self, calls: Any, place: str) -> list[Json]:
        if not isinstance(calls, list):
            raise invalid_field(f"{place}.tool_calls", "a list")
        self._open = []
        return [self._call(call, f"{place}.tool_calls[{n}]") for n, call in enumerate(calls)]

    def _call(self, call: Any, place: str) -> Json:
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise invalid_field(place, "a call with `function.name`")
        arguments = function.get("arguments") or {}
        if not isinstance(arguments, dict):
            raise invalid_field(f"{place}.function.arguments", "an object")
        self._calls += 1
        name, own = function["name"], call.get("id")
        call_id = own if isinstance(own, str) and own else f"call_{self._calls}"
        self._open.append((call_id, name))
        written = {"name": name, "arguments": orjson.dumps(arguments).decode()}
        return {"id": call_id, "type": "function", "function": written}

    def _result(self, turn: Json, place: str) -> Json:
        name = text_of(turn, "tool_name", place) or text_of(turn, "name", place)
        call_id = text_of(turn, "tool_call_id", place)
        if not call_id:
            of_tool = [one for one in self._open if one[1] == name] if name else []
            call_id = next((one[0] for one in of_tool or self._open), f"call_{name or 'unknown'}")
        self._open = [one for one in self._open if one[0] != call_id]
        return {"tool_call_id": call_id} | ({"name": name} if name else {})


def content_of(turn: Json, place: str, name: str = "content") -> str | list[Json]:
    """Return the text of a message, or its parts when it has images. Raises `Refused` (400)."""
    text, images = text_of(turn, name, place), turn.get("images")
    if not images:
        return text
    if not isinstance(images, list):
        raise invalid_field(_within(place, "images"), "a list")
    parts: list[Json] = [{"type": "text", "text": text}] if text else []
    for n, image in enumerate(images):
        url = _data_url(image, _within(place, f"images[{n}]"))
        parts.append({"type": "image_url", "image_url": {"url": url}})
    return parts


def text_of(fields: Json, name: str, place: str = "") -> str:
    """Return a field that holds text, empty where it is missing. Raises `Refused` (400)."""
    value = fields.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise invalid_field(_within(place, name), "text")
    return value


def _within(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _data_url(image: Any, place: str) -> str:
    try:
        first = b64decode(str(image)[:HEAD], validate=True)
    except NotBase64:
        first = b""
    kind = next((kind for mark, kind in IMAGES.items() if first.startswith(mark)), None)
    if kind is None:
        raise invalid_field(place, "a PNG, JPEG, GIF, WebP or BMP image in base64")
    return f"data:image/{kind};base64,{image}"
