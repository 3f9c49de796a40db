"""Server-sent events, both ways (WHATWG HTML, section 9.2)."""

import json
from dataclasses import dataclass
from typing import Any, Final

DONE: Final = "[DONE]"
"""The data of the event that ends a complete answer."""

MAX_EVENT_BYTES: Final = 16 * 1024 * 1024


class EventTooLong(Exception):
    """The other side sends one event without end; close the connection."""


@dataclass(frozen=True)
class SseEvent:
    """One event: its data (lines joined by a line feed), type and id."""

    data: str
    event: str = "message"
    id: str = ""


class SseReader:
    """Parses events from bytes that arrive in chunks of any size.

    An event is complete when its blank line has arrived; data after the last blank line is
    discarded at the end of the stream, as the standard requires.
    """

    def __init__(self, *, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max = max_event_bytes
        self._rest = b""
        self._after_cr = False
        self._data: list[str] = []
        self._size = 0
        self._event = self._id = ""
        self._first_line = True

    def feed(self, data: bytes) -> list[SseEvent]:
        """The events that `data` completes.

        Raises `EventTooLong` when one event is longer than the limit.
        """
        if self._after_cr and data:
            data = data.removeprefix(b"\n")
            self._after_cr = False
        if data.endswith(b"\r"):
            self._after_cr = True
        *lines, self._rest = _lines(self._rest + data)
        events = [event for line in lines if (event := self._take(line)) is not None]
        if len(self._rest) + self._size > self._max:
            raise EventTooLong(f"An event is longer than {self._max} bytes.")
        return events

    def _take(self, line: bytes) -> SseEvent | None:
        if self._first_line:
            line = line.removeprefix(b"\xef\xbb\xbf")
            self._first_line = False
        if not line:
            return self._dispatch()
        self._size += len(line)
        name, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        elif name == "id" and "\0" not in value:
            self._id = value
        return None

    def _dispatch(self) -> SseEvent | None:
        data, event = self._data, self._event
        self._data, self._event, self._size = [], "", 0
        return SseEvent("\n".join(data), event or "message", self._id) if data else None


def _lines(data: bytes) -> list[bytes]:
    """Split at CRLF, LF and CR; the last item is the line that has no end yet."""
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return data.split(b"\n")


def sse_event(data: Any, *, event: str | None = None, id: str | None = None) -> bytes:
    """The bytes of one event; anything but a string is written as JSON."""
    text = data if isinstance(data, str) else json.dumps(data, separators=(",", ":"))
    head = f"id: {id}\n" if id is not None else ""
    head += f"event: {event}\n" if event is not None else ""
    return (head + "".join(f"data: {line}\n" for line in text.split("\n")) + "\n").encode()
