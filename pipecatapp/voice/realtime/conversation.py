"""The items of a realtime conversation, and the same as the messages of a chat completion."""

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

from pydantic import Field, RootModel

from hearth.openai_api.chat import FunctionCall, Message, ToolCall
from pipecatapp.voice.messages import Json
from pipecatapp.voice.realtime.session import Part
from pipecatapp.voice.realtime.wire import EventRefused, new_id, parsed

MOST_BYTES: Final = 32 * 1024 * 1024
"""Of all items of a conversation, as JSON."""

ROOT: Final = "root"
"""As the item before a new one: the beginning of the conversation."""


class Content(Part):
    """A part of a message, of the kinds that clients send."""

    type: Literal["input_text", "input_audio", "input_image", "output_text", "output_audio"]
    text: str | None = None
    audio: str | None = None
    transcript: str | None = None
    image_url: str | None = None
    detail: str | None = None


class ItemPart(Part):
    """Fields that every item has."""

    id: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    object: Literal["realtime.item"] | None = None
    status: str | None = None


class MessageItem(ItemPart):
    """A message."""

    type: Literal["message"]
    role: Literal["user", "assistant", "system"]
    content: list[Content]


class CallItem(ItemPart):
    """A call of a function."""

    type: Literal["function_call"]
    name: str
    arguments: str
    call_id: str | None = None


class OutputItem(ItemPart):
    """The result of a function."""

    type: Literal["function_call_output"]
    call_id: str
    output: str


class AnyItem(RootModel[MessageItem | CallItem | OutputItem]):
    """An item that a client creates."""

    root: Annotated[MessageItem | CallItem | OutputItem, Field(discriminator="type")]


@dataclass
class Item:
    """One item. `body` is what clients receive; audio is not kept."""

    body: Json
    transcript: "asyncio.Task[None] | None" = None
    """The transcription of its audio, until which its text is unknown."""
    spoken: list[tuple[str, int]] = field(default_factory=list)
    """The parts of an answer that were spoken, each with its first millisecond of audio."""

    @property
    def id(self) -> str:
        return str(self.body["id"])

    def truncate(self, milliseconds: int) -> None:
        """Remove what was not played. Raises `EventRefused` if this is not a spoken answer."""
        if self.body["type"] != "message" or self.body["role"] != "assistant":
            raise EventRefused("invalid_value", "Only an answer can be truncated.", "item_id")
        self.spoken = [part for part in self.spoken if part[1] < milliseconds]
        text = " ".join(words for words, _ in self.spoken)
        self.body["content"] = [{"type": "output_audio", "transcript": text}]


def item_of(body: Any, *, within: str = "item") -> Item:
    """Return the item that a client describes. Raises `EventRefused`."""
    made = parsed(AnyItem, body, within=within).root
    known = made.model_dump(exclude_none=True)
    known |= {"id": made.id or new_id("item"), "object": "realtime.item", "status": "completed"}
    if isinstance(made, CallItem):
        known["call_id"] = made.call_id or new_id("call")
    return Item(known)


class Conversation:
    """The items in their order."""

    def __init__(self) -> None:
        self.id = new_id("conv")
        self.items: list[Item] = []
        self._sizes: dict[str, int] = {}

    def add(self, item: Item, after: str | None = None) -> str | None:
        """Add an item at the end, or after another one; return the id of the one before it.
        Raises `EventRefused`.
        """
        size = len(json.dumps(item.body))
        if size + sum(self._sizes.values()) > MOST_BYTES:
            message = f"A conversation has at most {MOST_BYTES} bytes: delete items."
            raise EventRefused("conversation_too_large", message)
        if item.id in self._sizes:
            raise EventRefused("invalid_value", f"The item {item.id!r} exists.", "item.id")
        place = len(self.items)
        if after == ROOT:
            place = 0
        elif after is not None:
            place = self.items.index(self.item(after)) + 1
        self.items.insert(place, item)
        self._sizes[item.id] = size
        return self.items[place - 1].id if place else None

    def item(self, id: str) -> Item:
        """Return an item by its id. Raises `EventRefused`."""
        for item in self.items:
            if item.id == id:
                return item
        raise EventRefused("item_not_found", f"There is no item {id!r}.", "item_id")

    def remove(self, id: str) -> None:
        """Remove an item. Raises `EventRefused`."""
        self.items.remove(self.item(id))
        del self._sizes[id]


def messages_of(items: Iterable[Item]) -> list[Message]:
    """Return items as messages of a chat; calls that follow each other are one message."""
    found: list[Message] = []
    for item in items:
        match item.body["type"]:
            case "message":
                found.extend(_message(item.body))
            case "function_call":
                _call(item.body, found)
            case _:
                output, call = item.body["output"], item.body["call_id"]
                found.append(Message(role="tool", content=output, tool_call_id=call))
    return found


def _message(body: Json) -> list[Message]:
    texts = [part.get("text") or part.get("transcript") or "" for part in body["content"]]
    images = [part for part in body["content"] if part["type"] == "input_image"]
    text = "\n".join(filter(None, texts))
    if not images:
        return [Message(role=body["role"], content=text)] if text else []
    parts: list[Json] = [{"type": "text", "text": text}] if text else []
    parts += [{"type": "image_url", "image_url": {"url": part["image_url"]}} for part in images]
    return [Message(role=body["role"], content=parts)]


def _call(body: Json, found: list[Message]) -> None:
    function = FunctionCall(name=body["name"], arguments=body["arguments"])
    call = ToolCall(id=body["call_id"], function=function)
    if found and found[-1].role == "assistant":
        last = found.pop()
        found.append(last.model_copy(update={"tool_calls": [*(last.tool_calls or []), call]}))
    else:
        found.append(Message(role="assistant", tool_calls=[call]))
