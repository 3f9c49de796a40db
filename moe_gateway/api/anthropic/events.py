"""The events of a streamed message, made of the chunks of a streamed chat.

The order is Anthropic's: `message_start`, then for each block `content_block_start`, its deltas and
`content_block_stop`, and last `message_delta` with the usage and `message_stop`.
"""

from secrets import token_hex
from typing import Any, Final

from moe_gateway.api.anthropic.answer import (
    Message,
    error_of,
    stop_reason,
    text_block,
    thinking_block,
    usage_of,
)
from moe_gateway.http.connection import Lost

Json = dict[str, Any]

TEXTS: Final = {
    "reasoning_content": ("thinking", "thinking_delta"),
    "reasoning": ("thinking", "thinking_delta"),
    "content": ("text", "text_delta"),
    "refusal": ("text", "text_delta"),
}
"""Field of a chat's delta -> its block, and the event that adds to that."""


STATUSES: Final = {"invalid_request_error": 400, "rate_limit_error": 429}
"""OpenAI's type of an error -> the HTTP status that it would have had."""


class Events:
    """Turns chunks into events. `ended` when the last one is out."""

    def __init__(self, message: Message, request_id: str) -> None:
        self.message, self.request_id = message, request_id
        self.ended = False
        self._index = -1
        """Index of the open block, or of the last one."""
        self._open: object = None
        """The open block: text, thinking, or the number of a call."""
        self._calls: set[int] = set()
        self._finish: Any = None
        self._usage: Any = None

    def begin(self) -> list[Json]:
        start = {"type": "message_start", "message": self.message.frame([], None, None)}
        return [start, {"type": "ping"}]

    def add(self, chunk: Json) -> list[Json]:
        """The events of one chunk."""
        self._usage = chunk.get("usage") or self._usage
        events: list[Json] = []
        for choice in chunk.get("choices") or ():
            if choice.get("index", 0) == 0:
                events += self._add_delta(choice.get("delta") or {})
                self._finish = choice.get("finish_reason") or self._finish
        return events

    def end(self) -> list[Json]:
        """The open block ends, and why and at what cost the message did."""
        events = [] if self._index >= 0 else self._grow("text", text_block(""))
        events += self._close()
        self.ended = True
        delta = {
            "stop_reason": stop_reason(self._finish),
            "stop_sequence": None,
            "stop_details": None,
            "container": None,
        }
        usage = usage_of(self._usage)
        return [
            *events,
            {"type": "message_delta", "delta": delta, "usage": usage},
            {"type": "message_stop"},
        ]

    def fail(self, error: Json) -> list[Json]:
        """The answer broke off: clients raise at this event."""
        self.ended = True
        status = STATUSES.get(str(error.get("type")), 500)
        return [error_of(error, status, self.request_id)]

    def _add_delta(self, delta: Json) -> list[Json]:
        events: list[Json] = []
        for name, (kind, change) in TEXTS.items():
            if text := delta.get(name):
                events += self._grow(
                    kind, thinking_block("") if kind == "thinking" else text_block("")
                )
                events.append(self._changed({"type": change, kind: text}))
        for piece in delta.get("tool_calls") or ():
            events += self._grow_call(piece)
        return events

    def _grow(self, what: object, block: Json) -> list[Json]:
        """Open a block of this kind, if that is not open."""
        if self._open == what:
            return []
        events = self._close()
        self._open, self._index = what, self._index + 1
        start = {"type": "content_block_start", "index": self._index, "content_block": block}
        return [*events, start]

    def _grow_call(self, piece: Json) -> list[Json]:
        events: list[Json] = []
        number, function = piece.get("index", 0), piece.get("function") or {}
        if number not in self._calls:
            self._calls.add(number)
            block = {
                "type": "tool_use",
                "id": piece.get("id") or f"toolu_{token_hex(12)}",
                "name": function.get("name") or "",
                "input": {},
                "caller": {"type": "direct"},
            }
            events += self._grow(number, block)
        if text := function.get("arguments"):
            if self._open != number:
                raise Lost("The server went on with a tool call after it had begun the next one.")
            events.append(self._changed({"type": "input_json_delta", "partial_json": text}))
        return events

    def _changed(self, delta: Json) -> Json:
        return {"type": "content_block_delta", "index": self._index, "delta": delta}

    def _close(self) -> list[Json]:
        if self._open is None:
            return []
        self._open = None
        return [{"type": "content_block_stop", "index": self._index}]
