"""What holds for every request: its id, the size of its body, the headers of its answer."""

import re
import uuid
from typing import Final

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hearth.openai_api.errors import error_body

REQUEST_ID: Final = re.compile(r"[\w.-]{1,128}", re.ASCII)

SECURITY_HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; "
        "frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
PRIVATE: Final = ("/api/", "/v1/")


class BodyTooLarge(Exception):
    """Send less, or raise PIPECATAPP_MAX_BODY_BYTES."""


class Edge:
    """ASGI middleware around the whole service; it never holds an answer back.

    A body is counted while it is read, so a caller who names no length cannot send without end.
    """

    def __init__(self, app: ASGIApp, *, max_body_bytes: int) -> None:
        self.app, self.max_body_bytes = app, max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        answer = _Answer(scope, send)
        structlog.contextvars.bind_contextvars(request_id=answer.request_id)
        try:
            await self.app(scope, self._counted(scope, receive), answer.send)
        except BodyTooLarge as error:
            if answer.started:
                raise
            refusal = JSONResponse(
                error_body(str(error), type="invalid_request_error", code="body_too_large"), 413
            )
            await refusal(scope, receive, answer.send)
        finally:
            structlog.contextvars.unbind_contextvars("request_id")

    def _counted(self, scope: Scope, receive: Receive) -> Receive:
        length = Headers(scope=scope).get("content-length", "")
        declared = int(length) if length.isascii() and length.isdigit() else 0
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if max(declared, seen) > self.max_body_bytes:
                raise BodyTooLarge(f"The request body is larger than {self.max_body_bytes} bytes.")
            return message

        return counted


class _Answer:
    """Adds the headers of every answer on its way out."""

    def __init__(self, scope: Scope, send: Send) -> None:
        given = Headers(scope=scope).get("x-request-id", "")
        self.request_id = given if REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        self.private = scope["path"].startswith(PRIVATE)
        self.started = False
        self._send = send

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            headers = MutableHeaders(scope=message)
            headers["x-request-id"] = self.request_id
            for name, value in SECURITY_HEADERS.items():
                headers[name] = value
            if self.private:
                headers.setdefault("cache-control", "no-store")
        await self._send(message)
