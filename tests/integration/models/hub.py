"""A file server that can be told to misbehave, for the tests of the download."""

from dataclasses import dataclass, field

from starlette.types import Receive, Scope, Send


@dataclass
class Hub:
    """An ASGI application that serves one file at every path, with ranges and an entity tag."""

    content: bytes
    etag: str = '"v1"'
    status: int | None = None
    location: str = ""
    cuts: list[int] = field(default_factory=list)
    """How many bytes the next answers send before their connection breaks."""
    ranges: list[str] = field(default_factory=list)
    """The `Range` header of each request so far."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request. uvicorn closes the connection of an answer that ends too early."""
        if scope["type"] != "http":
            return
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.ranges.append(headers.get("range", ""))
        start = self._start(headers)
        body = b"" if self.status else self.content[start:]
        rest = 206 if body else 416
        status = self.status or (rest if start else 200)
        await send(
            {"type": "http.response.start", "status": status, "headers": self._facts(start, body)}
        )
        sent = body[: self.cuts.pop(0)] if self.cuts else body
        await send({"type": "http.response.body", "body": sent, "more_body": sent != body})

    def _start(self, headers: dict[str, str]) -> int:
        if self.etag and headers.get("if-range") == self.etag:
            return int(headers["range"].removeprefix("bytes=").removesuffix("-"))
        return 0

    def _facts(self, start: int, body: bytes) -> list[tuple[bytes, bytes]]:
        facts = {"content-length": str(len(body)), "etag": self.etag}
        if start:
            sent = f"{start}-{len(self.content) - 1}" if body else "*"
            facts["content-range"] = f"bytes {sent}/{len(self.content)}"
        if self.location:
            facts["location"] = self.location
        return [(name.encode(), value.encode()) for name, value in facts.items() if value]
