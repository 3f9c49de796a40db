"""uvicorn's side of the callers, but the head of an answer leaves with what follows it.

uvicorn writes a head and the first bytes of its body one after the other, and uvloop hands each to
the kernel at once: two packets, and a caller that wakes up twice. Half of what a small answer costs
is such writes (decision 0115).
"""

import asyncio
from typing import Any, Final

from hearth.service.wire import BoundedHttp

HEAD: Final = b"HTTP/1.1 "


class Cork:
    """A transport that holds a head back until its body comes, or until the loop is free."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport, self._write = transport, transport.write
        self._loop, self._held = asyncio.get_running_loop(), b""
        self.is_closing = transport.is_closing

    def write(self, data: bytes) -> None:
        if self._held:
            data, self._held = self._held + data, b""
        elif data.startswith(HEAD):
            self._held = data
            self._loop.call_soon(self._flush)
            return
        self._write(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def _flush(self) -> None:
        if self._held:
            data, self._held = self._held, b""
            self._write(data)


class CorkedProtocol(BoundedHttp):
    """HTTP on one connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.transport = Cork(transport)  # type: ignore[assignment]
