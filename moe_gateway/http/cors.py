"""Which web pages may call (Fetch standard, "CORS protocol"): those of the named origins."""

from collections.abc import Collection
from typing import Final

from starlette.types import Message, Scope, Send

ALLOWED: Final = (
    (b"access-control-allow-methods", b"GET, POST, PUT, DELETE"),
    (b"access-control-allow-headers", b"*, authorization"),
    (b"access-control-max-age", b"600"),
)
SHOWN: Final = (
    b"access-control-expose-headers",
    b"x-request-id, openai-processing-ms, x-hearth-expert, x-hearth-model, x-hearth-route,"
    b" x-hearth-queued-ms, x-hearth-run, x-hearth-ignored, request-id, retry-after,"
    b" x-should-retry",
)


class Cors:
    """Lets the pages of these origins read answers; `*` means every page that has a key."""

    def __init__(self, origins: Collection[str]) -> None:
        self._origins = frozenset(one.rstrip("/").encode() for one in origins)

    async def answered(self, scope: Scope, send: Send) -> bool:
        """Whether this was a browser's question before the request (it carries no key)."""
        asks = any(name == b"access-control-request-method" for name, _ in scope["headers"])
        if scope["method"] != "OPTIONS" or not asks:
            return False
        headers = [*self._own(scope), *ALLOWED] if self._own(scope) else []
        start = {"type": "http.response.start", "status": 204, "headers": headers}
        await send(start)
        await send({"type": "http.response.body", "body": b""})
        return True

    def sender(self, scope: Scope, send: Send) -> Send:
        """`send` with what the browser wants to read at the answer's head."""
        own = self._own(scope)

        async def send_with_origin(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *own, SHOWN]}
            await send(message)

        return send_with_origin if own else send

    def _own(self, scope: Scope) -> list[tuple[bytes, bytes]]:
        origin: bytes = next((v for n, v in scope["headers"] if n == b"origin"), b"")
        if not origin or not (origin in self._origins or b"*" in self._origins):
            return []
        return [(b"access-control-allow-origin", origin), (b"vary", b"Origin")]
