"""What a caller of `/v1/responses` gets, while the gateway speaks chat with the server."""

from typing import Any, Final

import orjson
from starlette.types import Send

from hearth.openai_api.sse import DONE, SseReader
from moe_gateway.callers.corked import Line
from moe_gateway.errors import Headers
from moe_gateway.relay import JSON, Reply
from moe_gateway.responses.answer import Response, encoded
from moe_gateway.responses.events import Events
from moe_gateway.upstream.connection import Lost

Json = dict[str, Any]

OWN_NAMES: Final = {
    "messages": "input",
    "max_tokens": "max_output_tokens",
    "response_format": "text.format",
}
"""What a server calls these fields, and what the caller does."""


class ResponsesReply(Reply):
    """A `Reply` that takes the answer of a chat and sends that of a response.

    `asked` is set when the request is read; what is refused before has OpenAI's error body.
    """

    def __init__(self, request_id: bytes, send: Send, line: Line | None = None) -> None:
        super().__init__(request_id, send, line)
        self._asked: Json = {}
        self._streams = False
        self._events: Events | None = None
        self._reader = SseReader()

    def expect(self, asked: Json) -> None:
        """This is what was asked; the answer repeats parts of it."""
        self._asked, self._streams = asked, bool(asked.get("stream"))

    @property
    def open_line(self) -> Line | None:
        """None: each event becomes another one first."""
        return None

    async def piece(self, data: bytes) -> None:
        """Whole events of a chat. Raises `Lost` when one is no chunk."""
        found: list[Json] = []
        if not self.begun:
            self._events = Events(Response(self._asked))
            found += self._events.begin()
        assert self._events is not None
        for event in self._reader.feed(data):
            found += _translated(self._events, event.data)
        await super().piece(b"".join(map(encoded, found)))

    async def end(self, data: bytes = b"") -> None:
        """`data` is all of an answer, or the error event with which a broken stream ends."""
        if data and self.status and self._streams:
            await self.piece(data)
            data = b""
        await super().end(data)

    async def whole(
        self, status: int, data: bytes, headers: Headers, content_type: bytes = JSON
    ) -> None:
        if status >= 400:
            data = _in_own_names(data)
        if status >= 400 and not self.status:
            self._streams = False  # It is refused by its status, so there will be no events.
        elif self._asked and not self.status:
            data = orjson.dumps(Response(self._asked).whole(_decoded(data)))
        await super().whole(status, data, headers, content_type)


def _in_own_names(data: bytes) -> bytes:
    """An error that names a field, as its caller knows that field."""
    body = _decoded(data)
    named = body["error"].get("param")
    if isinstance(named, str) and named in OWN_NAMES:
        body["error"]["param"] = OWN_NAMES[named]
    return orjson.dumps(body)


def _translated(events: Events, data: str) -> list[Json]:
    if events.ended:
        return []
    if data == DONE:
        return events.end()
    chunk = _decoded(data)
    if error := chunk.get("error"):
        return events.fail(error if isinstance(error, dict) else {"message": str(error)})
    return events.add(chunk)


def _decoded(data: str | bytes) -> Json:
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise Lost("The server sent what is no JSON.") from error
    if not isinstance(found, dict):
        raise Lost("The server sent what is no answer of a chat.")
    return found
