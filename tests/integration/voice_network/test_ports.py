"""Ports of UDP from a range."""

import asyncio
import socket

import pytest

from pipecatapp.voice.worker.ports import Loop, ports_of


def test_sockets_without_a_port_get_one_of_the_range() -> None:
    """A firewall lets a range through; a socket beside it hears nothing, and nobody knows why."""
    with socket.socket(type=socket.SOCK_DGRAM) as one, socket.socket(type=socket.SOCK_DGRAM) as two:
        for each in (one, two):
            each.bind(("127.0.0.1", 0))
        free = sorted((one.getsockname()[1], two.getsockname()[1]))

    async def ports() -> list[int]:
        loop, found = asyncio.get_running_loop(), []
        for _ in range(2):
            transport, _protocol = await loop.create_datagram_endpoint(
                asyncio.DatagramProtocol, local_addr=("127.0.0.1", 0)
            )
            found.append(transport)
        with pytest.raises(OSError, match="none of 2 ports"):
            await loop.create_datagram_endpoint(
                asyncio.DatagramProtocol, local_addr=("127.0.0.1", 0)
            )
        taken = [transport.get_extra_info("sockname")[1] for transport in found]
        for transport in found:
            transport.close()
        return sorted(taken)

    with asyncio.Runner(loop_factory=lambda: Loop(free)) as runner:
        assert runner.run(ports()) == free
    assert list(ports_of("20000-20001")) == [20000, 20001]
    assert list(ports_of("")) == []
