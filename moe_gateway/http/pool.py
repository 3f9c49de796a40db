"""Connections to all servers, stored for the next request."""

import asyncio
import os
import socket
import ssl
from collections import defaultdict
from typing import Final

from moe_gateway.http.connection import (
    HIGH_WATER,
    Address,
    Connection,
    ConnectTimedOut,
    FirstByteTimedOut,
    Lost,
    Unreachable,
)
from moe_gateway.http.deadlines import Deadlines

MAX_IDLE_SECONDS: Final = 60.0
"""Most servers close an idle connection sooner, llama-server after 5 s; this is detected."""


class Pool:
    """Connections to all servers; a connection with a complete answer is stored for the next
    request."""

    def __init__(self, connect_timeout: float, tls: ssl.SSLContext | None = None) -> None:
        """`tls` is for servers that speak it; without one, the system's authorities count."""
        self._connect_timeout, self._tls = connect_timeout, tls
        self._idle: defaultdict[Address, list[Connection]] = defaultdict(list)
        self.deadlines = Deadlines()

    async def ask(
        self, address: Address, head: bytes, body: bytes, *, seconds: float, reuse: bool = True
    ) -> Connection:
        """Send a request and wait for status and headers; `release` the connection afterwards.

        `seconds` limit the wait for the answer. `reuse=False` is for requests that must not be sent
        twice: the server may have closed a stored connection at the same moment. Raises
        `Unreachable`, `Lost` or `TimedOut`.
        """
        kept = self._take(address) if reuse else None
        if kept is not None:
            try:
                await kept.ask(head, body, seconds)
            except Lost:
                if not kept.was_stale:
                    raise
            else:
                return kept
        connection = await self._connect(address)
        await connection.ask(head, body, seconds)
        return connection

    async def get(
        self, address: Address, path: str, *, key: bytes, seconds: float
    ) -> tuple[int, bytes]:
        """Status and body of a small `GET`, within so many seconds in all. Raises like `ask`."""
        head = b"GET %s HTTP/1.1\r\n%sConnection: close\r\n\r\n" % (
            (address.path + path).encode(),
            fixed_head(address, key),
        )
        connection: Connection | None = None
        try:
            async with asyncio.timeout(seconds):
                connection = await self._connect(address)
                await connection.ask(head, b"", seconds)
                return connection.status, await connection.body(seconds, HIGH_WATER)
        except TimeoutError as error:
            if connection is None:  # The system of a busy server accepts connections.
                reason = f"{address.authority}: no connection within {seconds:g} s."
                raise ConnectTimedOut(reason) from error
            reason = f"{address.authority}: no answer within {seconds:g} s."
            raise FirstByteTimedOut(reason) from error
        finally:
            if connection is not None:
                connection.abort()

    async def post(
        self, address: Address, path: str, body: bytes, *, key: bytes, seconds: float, limit: int
    ) -> tuple[int, bytes]:
        """Status and body of a `POST` of JSON with an answer of at most `limit` bytes. Raises like
        `ask`."""
        lines = b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
        where = (address.path + path).encode()
        head = b"POST %s HTTP/1.1\r\n%s%s" % (where, fixed_head(address, key), lines)
        connection = await self.ask(address, head, body, seconds=seconds)
        try:
            return connection.status, await connection.body(seconds, limit)
        finally:
            self.release(connection)

    def release(self, connection: Connection) -> None:
        """Store the connection if its answer is complete, else close it."""
        if connection.reusable:
            connection.rest(MAX_IDLE_SECONDS, self._idle[connection.address])
        else:
            connection.abort()

    def close(self) -> None:
        """Close idle connections; a connection in use is closed by its user."""
        for connections in self._idle.values():
            for connection in connections:
                connection.abort()

    def _take(self, address: Address) -> Connection | None:
        """The connection that was used last."""
        idle = self._idle[address]
        while idle:
            connection = idle.pop()
            connection.resting_in = None
            if connection.reusable:
                return connection
            connection.abort()
        return None

    def _context(self) -> ssl.SSLContext:
        """Made when a server speaks TLS: the system's authorities are two megabytes."""
        if self._tls is None:
            self._tls = ssl.create_default_context()
        return self._tls

    async def _connect(self, address: Address) -> Connection:
        loop = asyncio.get_running_loop()
        context = self._context() if address.tls else None
        try:
            async with asyncio.timeout(self._connect_timeout):
                _, connection = await loop.create_connection(
                    lambda: Connection(address, self.deadlines),
                    address.host,
                    address.port,
                    ssl=context,
                )
        except TimeoutError as error:
            raise ConnectTimedOut(
                f"{address.authority}: no connection within {self._connect_timeout:g} s"
                " (setting MOE_GATEWAY_CONNECT_TIMEOUT)."
            ) from error
        except (socket.gaierror, UnicodeError) as error:
            reason = f"{address.authority}: this name is unknown here ({error})."
            raise Unreachable(reason) from error
        except OSError as error:
            own = isinstance(error, ssl.SSLError) or not error.errno
            reason = str(error) if own else os.strerror(error.errno or 0)
            raise Unreachable(f"{address.authority}: {reason}.") from error
        return connection


def fixed_head(address: Address, key: bytes) -> bytes:
    """The header lines that every request to this server has."""
    line = b"Authorization: Bearer %s\r\n" % key if key else b""
    return b"Host: %s\r\n%s" % (address.authority.encode(), line)
