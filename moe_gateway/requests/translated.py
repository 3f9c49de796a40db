"""Base class of replies of other APIs, whose requests are converted to a path of `/v1`, and the
answers back."""

from dataclasses import dataclass
from typing import Any, Protocol

import orjson
from starlette.types import Send

from hearth.openai_api.sse import DONE, SseReader
from hearth.service.http_errors import Refused, invalid_json
from moe_gateway.endpoints import Kind
from moe_gateway.errors import Headers, nested_too_deeply
from moe_gateway.http.connection import Lost
from moe_gateway.http.server import Line
from moe_gateway.keys.limits import Caller
from moe_gateway.requests.reply import JSON, Reply

Json = dict[str, Any]


class ReplyFactory(Protocol):
    """Makes the reply to a request, such as the class `Reply`."""

    def __call__(self, request_id: bytes, send: Send, line: Line | None = None) -> Reply: ...


@dataclass(frozen=True, slots=True)
class Translation:
    """The request to a path of `/v1` that is equivalent to one of another API."""

    kind: Kind
    path: str
    body: bytes
    notice: str = ""
    """Ignored parts of the request, for the route reason."""
    model: str = ""
    answer: bytes | None = None
    """The complete answer, if no server is needed for it; then `model` has to be available."""


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

    `read` sets `expected` and `streams`; an earlier error is sent with its status.
    """

    expected = False
    streams = False

    def __init__(self, request_id: bytes, send: Send, line: Line | None = None) -> None:
        super().__init__(request_id, send, line)
        self._events: Events | None = None
        self._reader = SseReader()

    def read(self, path: str, body: bytes, caller: Caller) -> Translation:
        """Convert the request that this reply answers.

        Raises `Refused` for what has no equivalent.
        """
        raise NotImplementedError

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
            data = orjson.dumps(self.error_of(answer_object(data)))
        elif self.expected and not self.status:
            data = orjson.dumps(self.answer_of(answer_object(data)))
        await super().whole(status, data, headers, content_type)


def _translated(events: Events, data: str) -> list[Json]:
    if events.ended:
        return []
    if data == DONE:
        return events.end()
    chunk = answer_object(data)
    if error := chunk.get("error"):
        return events.fail(error if isinstance(error, dict) else {"message": str(error)})
    return events.add(chunk)


def request_object(data: bytes) -> Json:
    """Return the JSON object of a request. Raises `Refused` (400) for other data."""
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise invalid_json(str(error).rstrip(".")) from error
    if not isinstance(found, dict):
        raise Refused(400, "invalid_type", "The request is not a JSON object.")
    return found


def request_bytes(body: Json | list[Json]) -> bytes:
    """Return a converted request, or its items, as JSON. Raises `Refused` (400)."""
    try:
        return orjson.dumps(body)
    except TypeError as error:  # orjson reads more levels than it writes.
        raise nested_too_deeply() from error


def answer_object(data: str | bytes) -> Json:
    """Return the JSON object of a server's answer. Raises `Lost` for other data."""
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise Lost("The server sent an answer that is not valid JSON.") from error
    if not isinstance(found, dict):
        raise Lost("The server sent an answer that is not a valid chat completion.")
    return found
