"""The events of a streamed response, made of the chunks of a streamed chat.

The order is OpenAI's: `response.created`, `response.in_progress`, then for each item
`output_item.added`, its parts with their deltas, `output_item.done`, and last the whole response.
"""

from dataclasses import dataclass, field
from secrets import token_hex
from typing import Any, Final

from moe_gateway.http.connection import Lost
from moe_gateway.responses.answer import (
    Response,
    call_item,
    message_item,
    refusal_part,
    text_part,
)

Json = dict[str, Any]

PARTS: Final = {
    "content": "output_text",
    "refusal": "refusal",
    "reasoning_content": "reasoning_text",
    "reasoning": "reasoning_text",
}
"""Field of a chat's delta -> the kind of part that it is of."""


@dataclass
class Growing:
    """The item with the number `index`, and the one part that is open in it."""

    response: Response
    index: int
    kind: str
    id: str
    text: str = ""
    logprobs: list[Json] = field(default_factory=list)
    call: Json = field(default_factory=dict)

    @property
    def part(self) -> Json:
        """Return the current content of its part."""
        if self.kind == "refusal":
            return refusal_part(self.text)
        if self.kind == "reasoning_text":
            return {"type": "reasoning_text", "text": self.text}
        return text_part(self.text, self.logprobs)

    def item(self, status: str = "completed") -> Json:
        """Return the current item."""
        if self.kind == "function_call":
            return call_item(self.id, self.call, status)
        if self.kind == "reasoning_text":
            return self.response.reasoning_item(self.id, self.text, status)
        return message_item(self.id, [self.part], status)


class Events:
    """Turns chunks into events. `ended` when the last one is out."""

    def __init__(self, response: Response) -> None:
        self.response = response
        self.ended = False
        self._number = -1
        self._items: list[Growing] = []
        self._open: Growing | None = None
        """The item that is open: clients (Home Assistant is one) know one at a time."""
        self._calls: dict[int, Growing] = {}
        self._finish: str | None = None
        self._usage: Any = None

    def begin(self) -> list[Json]:
        frame = self.response.frame("in_progress", [])
        return [
            self._event("response.created", response=frame),
            self._event("response.in_progress", response=frame),
        ]

    def add(self, chunk: Json) -> list[Json]:
        """The events of one chunk."""
        self._usage = chunk.get("usage") or self._usage
        self.response.model = str(chunk.get("model") or self.response.model)
        events: list[Json] = []
        for choice in chunk.get("choices") or ():
            if choice.get("index", 0) == 0:
                events += self._add_choice(choice)
        return events

    def end(self) -> list[Json]:
        """Close the open item, and end with the event that contains the whole response."""
        events = self._close()
        output = [item.item() for item in self._items]
        if not output:
            events += self._grow("output_text", "", []) + self._close()
            output = [item.item() for item in self._items]
        whole = self.response.ended(self._finish, output, self._usage)
        self.ended = True
        return [*events, self._event(f"response.{whole['status']}", response=whole)]

    def fail(self, error: Json) -> list[Json]:
        """The answer broke off. OpenAI's clients raise at `error`, and show its message."""
        self.ended = True
        told = {"code": error.get("code") or "server_error", "message": error.get("message") or ""}
        output = [item.item("incomplete") for item in self._items]
        failed = self.response.frame("failed", output, error=told)
        return [
            self._event("response.failed", response=failed),
            self._event("error", **told, param=None, error=error),
        ]

    def _add_choice(self, choice: Json) -> list[Json]:
        events: list[Json] = []
        delta = choice.get("delta") or {}
        logprobs = (choice.get("logprobs") or {}).get("content") or []
        for name, kind in PARTS.items():
            if delta.get(name):
                events += self._grow(kind, delta[name], logprobs)
        for piece in delta.get("tool_calls") or ():
            events += self._grow_call(piece)
        self._finish = choice.get("finish_reason") or self._finish
        return events

    def _grow(self, kind: str, text: str, logprobs: list[Json]) -> list[Json]:
        events: list[Json] = []
        if self._open is None or self._open.kind != kind:
            events += self._close()
            prefix = "rs" if kind == "reasoning_text" else "msg"
            self._open = self._new(kind, prefix)
            item = self._open.item("in_progress") | {"content": []}
            events.append(self._of(self._open, "output_item.added", item=item))
            events.append(self._of_part("content_part.added", part=self._open.part))
        if text:
            self._open.text += text
            self._open.logprobs += logprobs
            more = {"logprobs": logprobs} if kind == "output_text" else {}
            events.append(self._of_part(f"{kind}.delta", delta=text, **more))
        return events

    def _close(self) -> list[Json]:
        """End the open part and its item."""
        item = self._open
        if item is None:
            return []
        if item.kind == "function_call":
            self._open = None
            return self._close_call(item)
        said = {"refusal": item.text} if item.kind == "refusal" else {"text": item.text}
        more = {"logprobs": item.logprobs} if item.kind == "output_text" else {}
        events = [
            self._of_part(f"{item.kind}.done", **said, **more),
            self._of_part("content_part.done", part=item.part),
            self._of(item, "output_item.done", item=item.item()),
        ]
        self._open = None
        return events

    def _grow_call(self, piece: Json) -> list[Json]:
        events: list[Json] = []
        index, function = piece.get("index", 0), piece.get("function") or {}
        call = self._calls.get(index)
        if call is None:
            events += self._close()
            call = self._open = self._calls[index] = self._new("function_call", "fc")
            call.call = {
                "id": piece.get("id"),
                "function": {"name": function.get("name"), "arguments": ""},
            }
            item = call.item("in_progress")
            events.append(self._of(call, "output_item.added", item=item))
        if text := function.get("arguments"):
            if call is not self._open:
                raise Lost("The server went on with a tool call after it had begun the next one.")
            call.call["function"]["arguments"] += text
            events.append(self._of(call, "function_call_arguments.delta", delta=text))
        return events

    def _close_call(self, call: Growing) -> list[Json]:
        function = call.call["function"]
        return [
            self._of(
                call,
                "function_call_arguments.done",
                name=function["name"],
                arguments=function["arguments"],
            ),
            self._of(call, "output_item.done", item=call.item()),
        ]

    def _new(self, kind: str, prefix: str) -> Growing:
        item = Growing(self.response, len(self._items), kind, f"{prefix}_{token_hex(12)}")
        self._items.append(item)
        return item

    def _of_part(self, kind: str, **fields: Any) -> Json:
        assert self._open is not None
        return self._of(self._open, kind, content_index=0, **fields)

    def _of(self, growing: Growing, kind: str, **fields: Any) -> Json:
        where: Json = {"output_index": growing.index}
        if "item" not in fields:
            where["item_id"] = growing.id
        return self._event(f"response.{kind}", **where, **fields)

    def _event(self, kind: str, **fields: Any) -> Json:
        self._number += 1
        return {"type": kind, "sequence_number": self._number, **fields}
