"""Base class of responses of other APIs, converted from the chat completions of the server."""

from typing import Any, Protocol

import orjson
from starlette.types import Send

from hearth.openai_api.sse import DONE, SseReader
from moe_gateway.errors import Headers
from moe_gateway.http.connection import Lost
from moe_gateway.http.server import Line
from moe_gateway.requests.relay import JSON, Reply

Json = dict[str, Any]


class Events(Protocol):
    """Makes the events of the other API from the chunks of a chat."""

    @property
    def ended(self) -> bool:
        """The last event is out."""

    def begin(self) -> list[Json]:
        """The events before the first chunk."""

    def add(self, chunk: Json) -> list[Json]:
        """The events of one chunk."""

    def end(self) -> list[Json]:
        """The events after the last chunk."""

    def fail(self, error: Json) -> list[Json]:
        """The events of an answer that broke off."""


class TranslatedReply(Reply):
    """A `Reply` that converts the answer of a chat to that of another API.

    A subclass sets `expected` and `streams` when the request is parsed; an earlier error is sent
    with its status.
    """

    expected = False
    streams = False

    def __init__(self, request_id: bytes, send: Send, line: Line | None = None) -> None:
        super().__init__(request_id, send, line)
        self._events: Events | None = None
        self._reader = SseReader()

    def new_events(self) -> Events:
        """Return the converter of events of this answer."""
        raise NotImplementedError

    def answer_of(self, completion: Json) -> Json:
        """Convert a complete chat completion."""
        raise NotImplementedError

    def error_of(self, body: Json) -> Json:
        """The body of an error, of one in OpenAI's form."""
        raise NotImplementedError

    def encoded(self, event: Json) -> bytes:
        """One event of the stream."""
        return b"event: %s\ndata: %s\n\n" % (event["type"].encode(), orjson.dumps(event))

    def sent(self, events: list[Json]) -> None:
        """Events are about to go out."""

    @property
    def open_line(self) -> Line | None:
        """None: each event becomes another one first."""
        return None

    async def piece(self, data: bytes) -> None:
        """Convert whole events of a chat. Raises `Lost` if one is not a valid chunk."""
        found: list[Json] = []
        if not self.begun:
            self._events = self.new_events()
            found += self._events.begin()
        assert self._events is not None
        for event in self._reader.feed(data):
            found += _translated(self._events, event.data)
        self.sent(found)
        await super().piece(b"".join(map(self.encoded, found)))

    async def end(self, data: bytes = b"") -> None:
        """`data` is all of an answer, or the error event with which a broken stream ends."""
        if data and self.status and self.streams:
            await self.piece(data)
            data = b""
        await super().end(data)

    async def whole(
        self, status: int, data: bytes, headers: Headers, content_type: bytes = JSON
    ) -> None:
        if status >= 400 and not self.status:
            self.streams = False  # It is refused by its status, so there will be no events.
            data = orjson.dumps(self.error_of(decoded(data)))
        elif self.expected and not self.status:
            data = orjson.dumps(self.answer_of(decoded(data)))
        await super().whole(status, data, headers, content_type)


def _translated(events: Events, data: str) -> list[Json]:
    if events.ended:
        return []
    if data == DONE:
        return events.end()
    chunk = decoded(data)
    if error := chunk.get("error"):
        return events.fail(error if isinstance(error, dict) else {"message": str(error)})
    return events.add(chunk)


def decoded(data: str | bytes) -> Json:
    """A JSON object of a server. Raises `Lost`."""
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise Lost("The server sent what is no JSON.") from error
    if not isinstance(found, dict):
        raise Lost("The server sent what is no answer of a chat.")
    return found
