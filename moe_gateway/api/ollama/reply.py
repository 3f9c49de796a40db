"""Responses of Ollama's API, converted from the chat completions of the server."""

from collections.abc import Sequence
from typing import Any, Final

import orjson
from starlette.types import Send

from moe_gateway.api.ollama.answer import Answer, error_of, now
from moe_gateway.api.ollama.events import Events
from moe_gateway.api.ollama.request import Request, read_request
from moe_gateway.errors import Headers
from moe_gateway.http.server import Line
from moe_gateway.keys.limits import Caller
from moe_gateway.requests.reply import EVENT_STREAM
from moe_gateway.requests.translated import (
    TranslatedReply,
    Translation,
    request_bytes,
    request_object,
)
from moe_gateway.routing.choice import known_models
from moe_gateway.routing.instances import Instance

Json = dict[str, Any]

LINES: Final = b"application/x-ndjson"
BLANK: Final = b" "
"""Keep-alive data: JSON may begin with a blank, while an empty line is not valid JSON."""


class OllamaReply(TranslatedReply):
    """A `Reply` that sends lines of JSON where a chat has events."""

    def __init__(
        self,
        request_id: bytes,
        send: Send,
        line: Line | None = None,
        *,
        instances: Sequence[Instance] = (),
    ) -> None:
        """`instances` have the names of the models, which may lack their tag in a request."""
        super().__init__(request_id, send, line)
        self._instances = instances
        self._request: Request | None = None

    def read(self, path: str, body: bytes, caller: Caller) -> Translation:
        """Convert the request to one of the three paths of `/v1`."""
        known = known_models(self._instances)
        self._request = request = read_request(path, request_object(body), known)
        self.expected, self.streams = request.at_once is None, request.stream
        return Translation(
            request.kind,
            request.target,
            request_bytes(request.body),
            request.notice,
            request.body["model"],
            None if request.at_once is None else _whole(request.at_once),
        )

    def new_events(self) -> Events:
        """Return what makes the lines of this answer."""
        return Events(self._answer())

    def answer_of(self, completion: Json) -> Json:
        """Return the whole answer, of a completion or of vectors."""
        answer = self._answer()
        is_vectors = answer.request.kind == "embeddings"
        return answer.vectors(completion) if is_vectors else answer.whole(completion)

    def error_of(self, body: Json) -> Json:
        """Return the body of an error."""
        return error_of(body["error"])

    def encoded(self, event: Json) -> bytes:
        """Return one line of the stream."""
        return orjson.dumps(event) + b"\n"

    def keep_alive_comment(self) -> bytes:
        """Return data that keeps the connection of a waiting caller open."""
        return BLANK

    def _head(self, status: int, content_type: bytes, headers: Headers, facts: Headers) -> Headers:
        kind = LINES if content_type.startswith(EVENT_STREAM) else content_type
        return super()._head(status, kind, headers, facts)

    def _certain(self) -> bytes:
        """Return nothing: lines of JSON have no comments for facts that were not known earlier."""
        return b""

    def _answer(self) -> Answer:
        assert self._request is not None
        return Answer(self._request, self.started_at)


def _whole(answer: Json) -> bytes:
    """Return the body of an answer for which no expert is needed."""
    return orjson.dumps(answer | ({"created_at": now()} if "done" in answer else {}))
