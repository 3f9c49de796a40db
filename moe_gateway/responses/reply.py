"""Responses of `/v1/responses`, converted from the chat completions of the server."""

from collections.abc import Callable
from typing import Any, Final

import orjson
from starlette.types import Send

from moe_gateway.endpoints import CHAT
from moe_gateway.errors import Headers
from moe_gateway.http.server import Line
from moe_gateway.keys.limits import Caller
from moe_gateway.requests.reply import JSON
from moe_gateway.requests.translated import (
    TranslatedReply,
    Translation,
    answer_object,
    request_bytes,
    request_object,
)
from moe_gateway.responses.answer import Response
from moe_gateway.responses.events import Events
from moe_gateway.responses.request import Request, read_request
from moe_gateway.responses.store import KeyResponses, ResponseStore

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

    def __init__(
        self, request_id: bytes, send: Send, line: Line | None = None, *, store: ResponseStore
    ) -> None:
        """`store` keeps the answers that callers may refer to later."""
        super().__init__(request_id, send, line)
        self._store = store
        self._request: Request | None = None
        self._keep: Keep | None = None

    def read(self, path: str, body: bytes, caller: Caller) -> Translation:
        """Convert the request, with the stored responses of the caller's key."""
        own = self._store.of(caller)
        self._request = request = read_request(request_object(body), own)
        self._keep = self._keeper(own, request, len(body))
        self.expected, self.streams = True, bool(request.fields.get("stream"))
        return Translation("chat", CHAT, request_bytes(request.chat), request.notice)

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

    def _keeper(self, own: KeyResponses, request: Request, size: int) -> Keep | None:
        """Return what stores the answer; None if it is not to be stored, or too large."""
        if request.fields.get("store") is False or not own.takes(size):
            return None
        turns = (*request.before, request_bytes(request.items))

        def keep(response: Json) -> None:
            output = orjson.dumps(response["output"])
            own.keep(response["id"], orjson.dumps(response), (*turns, output))
            self._store.make_room()

        return keep

    def _response(self) -> Response:
        assert self._request is not None
        return Response(self._request, stored=self._keep is not None)

    def _kept(self, whole: Json) -> None:
        if self._keep is not None:
            self._keep(whole)


def _in_own_names(data: bytes) -> bytes:
    """Convert an error so that it contains the field's name in the caller's request."""
    body = answer_object(data)
    named = body["error"].get("param")
    if isinstance(named, str) and named in OWN_NAMES:
        body["error"]["param"] = OWN_NAMES[named]
    return orjson.dumps(body)
