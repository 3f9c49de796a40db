"""UDP ports from a range that a firewall permits: aiortc itself uses any free port."""

import asyncio
import errno
import random
from collections.abc import Callable, Sequence
from typing import Any


class Loop(asyncio.SelectorEventLoop):
    """An event loop that binds UDP sockets without a port to one of these ports; any if empty."""

    def __init__(self, ports: Sequence[int] = ()) -> None:
        super().__init__()
        self._ports = ports

    async def create_datagram_endpoint(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.DatagramProtocol],
        local_addr: tuple[str, int] | None = None,
        **more: Any,
    ) -> tuple[asyncio.DatagramTransport, asyncio.DatagramProtocol]:
        """As the loop does. Raises `OSError` when none of the ports is free."""
        if not self._ports or local_addr is None or local_addr[1] != 0:
            return await super().create_datagram_endpoint(
                protocol_factory, local_addr=local_addr, **more
            )
        for port in random.sample(self._ports, len(self._ports)):
            try:
                return await super().create_datagram_endpoint(
                    protocol_factory, local_addr=(local_addr[0], port), **more
                )
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
        raise OSError(errno.EADDRINUSE, f"none of {len(self._ports)} ports of UDP is free")


def ports_of(text: str) -> range:
    """`20000-20100`, or nothing."""
    first, _, last = text.partition("-")
    return range(int(first), int(last) + 1) if text else range(0)
