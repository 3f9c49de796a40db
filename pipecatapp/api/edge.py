"""Middleware for every request: its id, the limit of its body, the headers of its response."""

import re
import uuid
from typing import Final

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hearth.service.http_errors import BodyLimit
from pipecatapp.application.engine import InvalidDocument, LedgerBusy, LedgerFailed, LedgerTooNew
from pipecatapp.voice.satellites.listener import CannotListen

log = structlog.get_logger()

REQUEST_ID: Final = re.compile(r"[\w.-]{1,128}", re.ASCII)

SECURITY_HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
        "media-src 'self' blob:; connect-src 'self'; font-src 'self'; base-uri 'none'; "
        "form-action 'self'; "
        "frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
START_ERRORS: Final = (LedgerBusy, LedgerFailed, LedgerTooNew, InvalidDocument, CannotListen)
PRIVATE: Final = ("/api/", "/v1/", "/mcp", "/hooks/")
LARGE: Final = ("/api/restore", "/api/errands/", "/api/files")
"""Routes that accept bodies of any size, and write them to the disk as they arrive."""


class Edge:
    """ASGI middleware around the whole service; it never buffers a response."""

    def __init__(self, app: ASGIApp, *, max_body_bytes: int) -> None:
        self.app = BodyLimit(
            app, limit=max_body_bytes, setting="PIPECATAPP_MAX_BODY_BYTES", unlimited=LARGE
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(scope, receive, send)
            return
        answer = _Answer(scope, send)
        with structlog.contextvars.bound_contextvars(request_id=answer.request_id):
            await self.app(scope, receive, answer.send)

    async def _live(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Report in one sentence, without a traceback, why the service cannot start."""
        failed: Message | None = None

        async def unless_failed(message: Message) -> None:
            nonlocal failed
            if message["type"] == "lifespan.startup.failed":
                failed = message
            else:
                await send(message)

        try:
            await self.app(scope, receive, unless_failed)
        except START_ERRORS as error:
            log.error("start_refused", reason=str(error))
            failed = {"type": "lifespan.startup.failed", "message": ""}
        finally:
            if failed is not None:
                await send(failed)


class _Answer:
    """Adds the headers of every answer on its way out."""

    def __init__(self, scope: Scope, send: Send) -> None:
        given = Headers(scope=scope).get("x-request-id", "")
        self.request_id = given if REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        self.private = scope["path"].startswith(PRIVATE)
        self._send = send

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers["x-request-id"] = self.request_id
            for name, value in SECURITY_HEADERS.items():
                headers[name] = value
            if self.private:
                headers.setdefault("cache-control", "no-store")
        await self._send(message)
