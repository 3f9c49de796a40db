"""A forward proxy that resolves, checks and connects for the browser of one run.

The browser has no other network. The proxy resolves each name once, refuses it if one of its
addresses is not permitted, and connects to the checked address, so a second answer of a name server
(DNS rebinding) is never used. It also counts the bytes that a page loads.
"""

import asyncio
import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from pipecatapp.tools.browser.page_address import end_point
from pipecatapp.tools.web.addresses import AddressPolicy, AddressRefused, plain_host

LARGEST: Final = 2 * 1024 * 1024
"""Bytes that one page load receives."""
HEAD: Final = 64 * 1024
"""Bytes of the head of a request."""
CONNECT_SECONDS: Final = 10.0
PIECE: Final = 1 << 15
REASONS_KEPT: Final = 20
OWN_HEADERS: Final = ("proxy-", "connection:", "keep-alive:")
"""Headers for the proxy itself, which are not passed on."""


@dataclass(frozen=True)
class Request:
    """The head of a request to a proxy: the server to connect to, and what is sent to it first."""

    host: str
    port: int
    first: bytes
    tunnel: bool


class RefusedConnection(Exception):
    """The proxy does not connect; the text is the reason."""


class Proxy:
    """Listens on a unix socket while it is open."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.policy = AddressPolicy(both=True)
        self.left = LARGEST
        self.full = asyncio.Event()
        """Set when the page has received all that it may."""
        self.refused: dict[tuple[str, int], str] = {}
        """Why connections to a host and port were refused, since the last page load."""
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def exceeded(self) -> bool:
        """Whether the page has received all that it may."""
        return self.left <= 0

    def begin(self) -> None:
        """Begin a page load: count from zero."""
        self.left = LARGEST
        self.full.clear()
        self.refused.clear()

    async def start(self) -> None:
        """Listen."""
        self._path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._accept, self._path, limit=HEAD)
        self._path.chmod(0o600)

    async def close(self) -> None:
        """Stop listening and end all connections."""
        if self._server is not None:
            self._server.close()
        for task in self._connections:
            task.cancel()
        if self._connections:
            await asyncio.wait(self._connections)
        self._path.unlink(missing_ok=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.CancelledError):
            async with contextlib.AsyncExitStack() as stack:
                stack.callback(writer.close)
                request = await _head(reader)
                if request is not None:
                    await self._relay(request, reader, writer, stack)

    async def _relay(
        self,
        request: Request,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        stack: contextlib.AsyncExitStack,
    ) -> None:
        try:
            upstream, sink = await self._connect(request)
        except (AddressRefused, RefusedConnection) as error:
            if len(self.refused) < REASONS_KEPT:
                self.refused[request.host, request.port] = str(error)
            return
        stack.callback(sink.close)
        if request.tunnel:
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        sink.write(request.first)
        sending = asyncio.create_task(_copy(reader, sink))
        try:
            await self._receive(upstream, writer)
        finally:
            sending.cancel()

    async def _connect(self, request: Request) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to a checked address of the server.

        Raises `AddressRefused` or `RefusedConnection`.
        """
        if self.exceeded:
            raise RefusedConnection(f"the page has more than {LARGEST // 1024 // 1024} MB")
        for address in await self.policy.addresses(request.host, request.port):
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(CONNECT_SECONDS):
                    return await asyncio.open_connection(str(address), request.port)
        raise RefusedConnection(f"{request.host} does not accept a connection.")

    async def _receive(self, upstream: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass the server's bytes on, until its end or the limit of the page."""
        while not self.exceeded and (data := await upstream.read(PIECE)):
            kept = data[: self.left]
            self.left -= len(data)
            writer.write(kept)
            await writer.drain()
        if self.exceeded:
            self.full.set()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(PIECE):
            writer.write(data)
            await writer.drain()


async def _head(reader: asyncio.StreamReader) -> Request | None:
    """Read the head of a request; None if it is not one to a proxy."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return None
    return parsed(head)


def parsed(head: bytes) -> Request | None:
    """Parse the head of a request to a proxy: `CONNECT host:port`, or a complete http address."""
    line, *headers = head.removesuffix(b"\r\n\r\n").decode("latin-1").split("\r\n")
    words = line.split(" ")
    if len(words) != 3:
        return None
    method, target, version = words
    try:
        if method == "CONNECT":
            parts = urlsplit(f"//{target}")
            return Request(plain_host(parts.hostname or ""), parts.port or 443, b"", tunnel=True)
        if not target.startswith("http://"):
            return None
        host, port = end_point(target)
    except ValueError:
        return None
    path = "/" + target.removeprefix("http://").partition("/")[2]
    return Request(host, port, _own_head(f"{method} {path} {version}", headers), tunnel=False)


def _own_head(line: str, headers: Iterable[str]) -> bytes:
    """Return the head for the server. It closes the connection, which thus has one request."""
    kept = [one for one in headers if not one.lower().startswith(OWN_HEADERS)]
    return "\r\n".join([line, *kept, "Connection: close", "", ""]).encode("latin-1")
