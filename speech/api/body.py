"""The size of what comes in, bounded before it is kept."""

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hearth.openai_api.errors import error_body


class BodyLimit:
    """ASGI middleware: more than `most` bytes of a request are refused with 413."""

    def __init__(self, app: ASGIApp, *, most: int) -> None:
        self.app, self.most = app, most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        length = Headers(scope=scope).get("content-length", "")
        if length.isascii() and length.isdigit() and int(length) > self.most:
            body = error_body(
                f"The request body is larger than {self.most} bytes.",
                type="invalid_request_error", code="body_too_large",
            )  # fmt: skip
            await JSONResponse(body, 413)(scope, receive, send)
            return
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self.most:
                raise HTTPException(413, f"The request body is larger than {self.most} bytes")
            return message

        await self.app(scope, counted, send)
