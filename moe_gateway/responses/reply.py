"""Responses of `/v1/responses`, converted from the chat completions of the server."""

from collections.abc import Callable
from typing import Any, Final

import orjson
from starlette.types import Send

from moe_gateway.errors import Headers
from moe_gateway.http.server import Line
from moe_gateway.requests.relay import JSON
from moe_gateway.requests.translated import TranslatedReply, decoded
from moe_gateway.responses.answer import Response
from moe_gateway.responses.events import Events
from moe_gateway.responses.request import Request

Json = dict[str, Any]
Keep = Callable[[Json], None]

WHOLE: Final = ("response.completed", "response.incomplete")
"""The last event of an answer that has not failed."""

OWN_NAMES: Final = {
    "messages": "input",
    "max_tokens": "max_output_tokens",
    "response_format": "text.format",
}
"""Names of fields in errors of a server, and the names in the caller's request."""


class ResponsesReply(TranslatedReply):
    """A `Reply` that converts the answer of a chat to that of a response."""

    def __init__(self, request_id: bytes, send: Send, line: Line | None = None) -> None:
        super().__init__(request_id, send, line)
        self._request: Request | None = None
        self._keep: Keep | None = None

    def expect(self, request: Request, keep: Keep | None) -> None:
        """Set the request of this answer; the complete answer is passed to `keep`."""
        self._request, self._keep = request, keep
        self.expected, self.streams = True, bool(request.fields.get("stream"))

    def new_events(self) -> Events:
        return Events(self._response())

    def answer_of(self, completion: Json) -> Json:
        whole = self._response().whole(completion)
        self._kept(whole)
        return whole

    def error_of(self, body: Json) -> Json:
        return body

    async def whole(
        self, status: int, data: bytes, headers: Headers, content_type: bytes = JSON
    ) -> None:
        if status >= 400:
            data = _in_own_names(data)
        await super().whole(status, data, headers, content_type)

    def sent(self, events: list[Json]) -> None:
        if events and events[-1]["type"] in WHOLE:
            self._kept(events[-1]["response"])

    def _response(self) -> Response:
        assert self._request is not None
        return Response(self._request, stored=self._keep is not None)

    def _kept(self, whole: Json) -> None:
        if self._keep is not None:
            self._keep(whole)


def _in_own_names(data: bytes) -> bytes:
    """Convert an error so that it contains the field's name in the caller's request."""
    body = decoded(data)
    named = body["error"].get("param")
    if isinstance(named, str) and named in OWN_NAMES:
        body["error"]["param"] = OWN_NAMES[named]
    return orjson.dumps(body)
