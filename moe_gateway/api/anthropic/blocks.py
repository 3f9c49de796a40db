"""The turns of Anthropic's API as the messages of a chat.

Sources: https://docs.claude.com/en/api/messages, and `convert_anthropic_to_oai` of llama-server.
"""

from base64 import b64decode
from binascii import Error as NotBase64
from typing import Any, Final

import orjson

from moe_gateway.errors import invalid_field, unsupported_field

Json = dict[str, Any]

VOLATILE: Final = "x-anthropic-billing-header:"
"""Prefix of a system text of Claude Code with a checksum that changes with every turn, which
would prevent caching of the prompt's prefix. It has no meaning for a model."""


def blocks_of(content: Any, place: str) -> list[Json]:
    """The blocks of a content, of which a text is one. Raises `Refused` (400)."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list) or not all(isinstance(one, dict) for one in content):
        raise invalid_field(place, "text or a list of blocks")
    return content


def system_of(given: Any) -> tuple[list[Json], bool]:
    """The system message, if there is one, and whether something volatile was left out."""
    if given is None:
        return [], False
    texts = [_text(block, "text", "system") for block in blocks_of(given, "system")]
    kept = [text for text in texts if not text.startswith(VOLATILE)]
    messages = [{"role": "system", "content": "\n\n".join(kept)}] if kept else []
    return messages, len(kept) < len(texts)


def messages_of(given: Any) -> list[Json]:
    """The messages of a chat. Raises `Refused` (400)."""
    if not isinstance(given, list) or not given:
        raise invalid_field("messages", "a list of messages")
    found: list[Json] = []
    for n, turn in enumerate(given):
        place = f"messages.{n}"
        role = turn.get("role") if isinstance(turn, dict) else None
        if role not in ("user", "assistant", "system"):
            raise invalid_field(f"{place}.role", "one of user, assistant, system")
        blocks = blocks_of(turn.get("content"), f"{place}.content")
        found += _of_model(blocks, place) if role == "assistant" else _of_user(role, blocks, place)
    return found


def _of_user(role: str, blocks: list[Json], place: str) -> list[Json]:
    """Convert a user's turn: each tool result becomes a separate message, the rest one message."""
    results = [
        {
            "role": "tool",
            "tool_call_id": _text(block, "tool_use_id", place),
            "content": _result(block, place),
        }
        for block in blocks
        if block.get("type") == "tool_result"
    ]
    rest = [block for block in blocks if block.get("type") != "tool_result"]
    if not rest:
        return results
    return [*results, {"role": role, "content": _content(rest, place)}]


def _of_model(blocks: list[Json], place: str) -> list[Json]:
    """Convert the text, reasoning and tool calls of one turn of the model."""
    message: Json = {"role": "assistant", "content": None}
    thoughts, texts, calls = list[str](), list[Json](), list[Json]()
    for block in blocks:
        kind = block.get("type")
        if kind == "thinking":
            thoughts.append(_text(block, "thinking", place))
        elif kind == "tool_use":
            calls.append(_call(block, place))
        elif kind != "redacted_thinking":  # Only Anthropic can read that.
            texts.append(block)
    if thoughts:
        message["reasoning_content"] = "".join(thoughts)
    if texts:
        message["content"] = _content(texts, place)
    if calls:
        message["tool_calls"] = calls
    return [message if message["content"] or calls else message | {"content": ""}]


def _call(block: Json, place: str) -> Json:
    arguments = orjson.dumps(block.get("input") or {}).decode()
    function = {"name": _text(block, "name", place), "arguments": arguments}
    return {"id": _text(block, "id", place), "type": "function", "function": function}


def _result(block: Json, place: str) -> str | list[Json]:
    """Return a tool result as text. A failure is stated in the text: a chat has no field for it."""
    content = _content(blocks_of(block.get("content") or "", place), place)
    if not block.get("is_error"):
        return content
    if isinstance(content, str):
        return f"Error: {content}"
    return [{"type": "text", "text": "Error:"}, *content]


def _content(blocks: list[Json], place: str) -> str | list[Json]:
    """Text where it is nothing but text, since some servers take no parts; else all the parts."""
    parts = [part for block in blocks for part in _parts(block, place)]
    if all(part["type"] == "text" for part in parts):
        return "".join(part["text"] for part in parts)
    return parts


def _parts(block: Json, place: str) -> list[Json]:
    kind = block.get("type")
    if kind == "text":
        return [{"type": "text", "text": _text(block, "text", place)}]
    if kind == "image":
        return [{"type": "image_url", "image_url": {"url": _data(block.get("source"), place)}}]
    if kind == "document":
        return _document(block, place)
    if kind == "search_result":
        said = _content(blocks_of(block.get("content") or "", place), place)
        title = f"{block.get('title')} ({block.get('source')})"
        return [{"type": "text", "text": f"Search result {title}:\n{said}\n"}]
    known = "text, image, document, search_result, tool_use, tool_result, thinking"
    raise unsupported_field(f"{place}.content of type {str(kind)[:50]!r}", f"known are {known}")


def _document(block: Json, place: str) -> list[Json]:
    """A document: its text where it has some, else the file, for the server to judge."""
    source = block.get("source")
    name = str(block.get("title") or "document")
    if isinstance(source, dict) and source.get("type") == "content":
        return [
            part
            for inner in blocks_of(source.get("content"), place)
            for part in _parts(inner, place)
        ]
    if isinstance(source, dict) and source.get("type") == "text":
        text = _text(source, "data", place)
        return [{"type": "text", "text": f"Document {name}:\n{text}\n"}]
    data = _data(source, place)
    if data.startswith("data:text/"):
        try:
            text = b64decode(data.partition(",")[2], validate=True).decode()
        except (NotBase64, UnicodeDecodeError) as error:
            raise invalid_field(f"{place}.content", "text in UTF-8 and base64") from error
        return [{"type": "text", "text": f"Document {name}:\n{text}\n"}]
    return [{"type": "file", "file": {"filename": name, "file_data": data}}]


def _data(source: Any, place: str) -> str:
    """An image or a file as a data URL, or the address that the settings may allow."""
    if isinstance(source, dict) and source.get("type") == "base64":
        kind, data = _text(source, "media_type", place), _text(source, "data", place)
        return f"data:{kind};base64,{data}"
    if isinstance(source, dict) and source.get("type") == "url":
        return _text(source, "url", place)
    raise unsupported_field(f"{place}.content.source", "send the data itself (`base64`)")


def _text(block: Json, name: str, place: str) -> str:
    value = block.get(name)
    if not isinstance(value, str):
        raise invalid_field(f"{place}.{name}", "text")
    return value
