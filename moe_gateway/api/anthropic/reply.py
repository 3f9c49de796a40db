"""Responses of `/v1/messages`, converted from the chat completions of the server."""

from typing import Any

from starlette.types import Send

from moe_gateway.api.anthropic.answer import Message, error_of
from moe_gateway.api.anthropic.events import Events
from moe_gateway.api.anthropic.request import Request, read_request
from moe_gateway.endpoints import CHAT
from moe_gateway.errors import Headers
from moe_gateway.http.server import Line
from moe_gateway.keys.limits import Caller
from moe_gateway.requests.reply import JSON
from moe_gateway.requests.translated import (
    TranslatedReply,
    Translation,
    request_bytes,
    request_object,
)

Json = dict[str, Any]


class MessagesReply(TranslatedReply):
    """A `Reply` that converts the answer of a chat to that of a message."""

    def __init__(self, request_id: bytes, send: Send, line: Line | None = None) -> None:
        super().__init__(request_id, send, line)
        self._request: Request | None = None
        self._status = 0
        """That of the error which is about to go out."""

    def read(self, path: str, body: bytes, caller: Caller) -> Translation:
        """Convert the request to that of a chat."""
        self._request = request = read_request(request_object(body))
        self.expected, self.streams = True, request.stream
        return Translation("chat", CHAT, request_bytes(request.chat), request.notice)

    def new_events(self) -> Events:
        return Events(self._message(), self.request_id.decode())

    def answer_of(self, completion: Json) -> Json:
        return self._message().whole(completion)

    def error_of(self, body: Json) -> Json:
        return error_of(body["error"], self._status, self.request_id.decode())

    async def whole(
        self, status: int, data: bytes, headers: Headers, content_type: bytes = JSON
    ) -> None:
        self._status = status
        await super().whole(status, data, headers, content_type)

    def _head(self, status: int, content_type: bytes, headers: Headers, facts: Headers) -> Headers:
        """Anthropic's clients look for the id under another name."""
        head = super()._head(status, content_type, headers, facts)
        return [*head, (b"request-id", self.request_id)]

    def _message(self) -> Message:
        assert self._request is not None
        return Message(self._request)
