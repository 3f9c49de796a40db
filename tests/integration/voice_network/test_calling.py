"""Calls by WebRTC: whom the worker asks for its way."""

import asyncio
import sys
from typing import Any, cast

from aiortc import RTCConfiguration, RTCPeerConnection
from starlette.websockets import WebSocket

from pipecatapp.voice.worker.calling import answered
from pipecatapp.voice.worker.line import Line

ASKING = ("socket.gethostbyname", "socket.getaddrinfo", "socket.sendto")
asked: list[tuple[str, Any]] = []


class Notes(Line):
    """A line to nobody, with the answer that was told on it."""

    def __init__(self) -> None:
        super().__init__(cast("WebSocket", None), "default")
        self.sdp = ""

    async def tell(self, **message: Any) -> None:
        self.sdp = message.get("sdp", self.sdp)


def note(event: str, facts: tuple[Any, ...], *, asking: tuple[str, ...] = ASKING) -> None:
    """Whom this process asks for a name, or sends something; a hook that never ends.

    `asking` has its value still when Python ends and this module has lost its own.
    """
    if event in asking:
        asked.append((event, facts[-1] if event == "socket.sendto" else facts[0]))


async def offer(configuration: RTCConfiguration) -> str:
    peer = RTCPeerConnection(configuration)
    peer.addTransceiver("audio")
    await peer.setLocalDescription(await peer.createOffer())
    sdp = peer.localDescription.sdp
    await peer.close()
    return sdp


async def test_no_other_server_is_asked_for_the_way_to_a_caller() -> None:
    """A STUN server of somebody else would learn when this house is talked with, and from where;
    libraries ask a public one unless they are told not to."""
    sys.addaudithook(note)
    sdp = await offer(RTCConfiguration(iceServers=[]))
    asked.clear()
    line = Notes()
    async with asyncio.timeout(60), answered(sdp, line):
        found = [*asked]

    assert "a=candidate" in line.sdp
    assert found == []
