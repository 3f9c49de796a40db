"""The TLS port of a service, which redirects requests by plain HTTP."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from hearth.service.http_protocol import refusal

log = structlog.get_logger()

HANDSHAKE: Final = 0x16
"""The first byte of every TLS connection: the content type of RFC 8446, 5.1."""

HELLO_SECONDS: Final = 10.0
"""Time limit for the first bytes of a connection, which determine its protocol."""

LONGEST_HEAD: Final = 8 * 1024


@dataclass(frozen=True)
class Certificate:
    """The PEM files of a service's certificate (with its chain) and of its private key."""

    chain: Path
    key: Path

    @property
    def modified(self) -> tuple[int, int]:
        """The modification times of both files, in nanoseconds."""
        return self.chain.stat().st_mtime_ns, self.key.stat().st_mtime_ns


class TlsListener:
    """Accepts connections on a socket and passes those with TLS to `protocol`.

    Before each handshake it loads the certificate again if its files have changed.
    """

    def __init__(
        self,
        listening: socket.socket,
        protocol: Callable[[], asyncio.Protocol],
        context: ssl.SSLContext,
        certificate: Certificate,
    ) -> None:
        self._listening, self._protocol, self._context = listening, protocol, context
        self._certificate, self._loaded = certificate, certificate.modified
        self._handshakes: set[asyncio.Task[None]] = set()
        listening.settimeout(0)
        self._accepting = asyncio.create_task(self._accept())

    def close(self) -> None:
        """Stop accepting; established connections continue."""
        self._accepting.cancel()
        self._listening.close()
        for task in self._handshakes:
            task.cancel()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(self._listening)
            except OSError as error:
                log.warning("accept_failed", reason=error.strerror)
                await asyncio.sleep(0.1)
                continue
            task = asyncio.create_task(self._receive(connection))
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)

    async def _receive(self, connection: socket.socket) -> None:
        established = False
        try:
            async with asyncio.timeout(HELLO_SECONDS):
                if await first_byte(connection) != HANDSHAKE:
                    await redirect_plain_http(connection)
                    return
                self._renew()
                await asyncio.get_running_loop().connect_accepted_socket(
                    self._protocol, connection, ssl=self._context
                )
                established = True
        except (OSError, TimeoutError) as error:
            log.debug("handshake_failed", reason=str(error) or type(error).__name__)
        finally:
            if not established:
                connection.close()

    def _renew(self) -> None:
        """Load the certificate if its files have changed; keep the old one if they do not match."""
        try:
            modified = self._certificate.modified
            if modified == self._loaded:
                return
            files = self._certificate.chain, self._certificate.key
            # Load into a separate context first: a pair that does not match would remove the active
            # key.
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*files)
            self._context.load_cert_chain(*files)
        except OSError as error:
            log.warning("certificate_not_renewed", reason=str(error))
            return
        self._loaded = modified
        log.info("certificate_renewed", file=str(self._certificate.chain))


async def first_byte(connection: socket.socket) -> int:
    """Return the first byte without consuming it; -1 if the connection was closed."""
    loop = asyncio.get_running_loop()
    while True:
        readable = loop.create_future()
        loop.add_reader(connection, _done, readable)
        try:
            await readable
        finally:
            loop.remove_reader(connection)
        try:
            seen = connection.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            continue
        return seen[0] if seen else -1


def _done(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


async def redirect_plain_http(connection: socket.socket) -> None:
    """Respond to a plain HTTP request with a redirect; ignore any other data."""
    loop, head = asyncio.get_running_loop(), b""
    while b"\r\n\r\n" not in head and len(head) < LONGEST_HEAD:
        data = await loop.sock_recv(connection, LONGEST_HEAD)
        if not data:
            return
        head += data
    await loop.sock_sendall(connection, redirect(head.decode("latin-1")))
    connection.shutdown(socket.SHUT_WR)
    while await loop.sock_recv(connection, LONGEST_HEAD):
        pass


def redirect(head: str) -> bytes:
    """Return the response to a plain HTTP request with this head.

    It is a 308 for GET and HEAD, and a 400 for other methods, which may have sent a body or a key
    without encryption.
    """
    line, *fields = head.split("\r\n")
    method, _, rest = line.partition(" ")
    host = next((f[5:].strip() for f in fields if f.lower().startswith("host:")), "")
    if not host or not rest.startswith("/"):
        return b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    url = f"https://{host}{rest.split(' ')[0]}"
    body = refusal(f"This port requires HTTPS: use {url}.", "https_only")
    is_safe = method in ("GET", "HEAD")
    status = f"308 Permanent Redirect\r\nLocation: {url}" if is_safe else "400 Bad Request"
    return (
        f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    ).encode("latin-1") + (b"" if method == "HEAD" else body)
