"""A call by WebRTC, as a browser makes one: a microphone of ours, and a loudspeaker that counts."""

import asyncio
import contextlib
import fractions
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import AudioStreamTrack, MediaStreamError, MediaStreamTrack
from av import AudioFrame

from pipecatapp.voice.messages import HEARD_RATE
from speech.audio import Samples, to_pcm
from tests.integration.voice.conftest import FRAME, LOUD, Caller, Home

CANDIDATE = re.compile(r"^a=candidate:\S+ \d+ udp \d+ \S+ (\d+) typ (\w+)", re.MULTILINE | re.I)


class Microphone(AudioStreamTrack):
    """Says what it is given, at the pace of speech, and is silent otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self._said, self._sent, self._began = b"", 0, 0.0

    def say(self, samples: Samples) -> None:
        self._said += to_pcm(samples)

    async def recv(self) -> AudioFrame:
        self._began = self._began or time.monotonic()
        await asyncio.sleep(max(0.0, self._began + self._sent / HEARD_RATE - time.monotonic()))
        data, self._said = self._said[: 2 * FRAME], self._said[2 * FRAME :]
        frame = AudioFrame(format="s16", layout="mono", samples=FRAME)
        frame.planes[0].update(data.ljust(2 * FRAME, b"\0"))
        frame.sample_rate, frame.time_base = HEARD_RATE, fractions.Fraction(1, HEARD_RATE)
        frame.pts = self._sent
        self._sent += FRAME
        return frame


class Call:
    """One conversation whose sound goes by WebRTC. `answer` is the worker's SDP."""

    def __init__(self, caller: Caller, microphone: Microphone, answer: str) -> None:
        self.caller, self.microphone = caller, microphone
        self.candidates = [(int(port), kind) for port, kind in CANDIDATE.findall(answer)]
        """The port and the kind of each address at which the worker can be reached."""
        self.loud = asyncio.Event()
        """Set when the agent could be heard."""

    async def play(self, track: MediaStreamTrack) -> None:
        """Listen until one of both hangs up."""
        with contextlib.suppress(MediaStreamError):
            while True:
                frame = await track.recv()
                assert isinstance(frame, AudioFrame)
                if np.abs(frame.to_ndarray()).max() > LOUD * 32768:
                    self.loud.set()


@asynccontextmanager
async def calling(home: Home) -> AsyncIterator[Call]:
    """Somebody whose browser has a way for WebRTC, until he hangs up."""
    peer, microphone = RTCPeerConnection(RTCConfiguration(iceServers=[])), Microphone()
    tracks: list[MediaStreamTrack] = []
    connected = asyncio.Event()
    peer.on("track", tracks.append)
    peer.on(
        "connectionstatechange",
        lambda: connected.set() if peer.connectionState == "connected" else None,
    )
    peer.addTrack(microphone)
    peer.createDataChannel("hearth")
    await peer.setLocalDescription(await peer.createOffer())
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(peer.close)
        offer = peer.localDescription.sdp
        caller = await stack.enter_async_context(home.caller(offer=offer))
        answer = (await caller.hears("answer"))["sdp"]
        await peer.setRemoteDescription(RTCSessionDescription(answer, "answer"))
        # aioice, closed while it connects, goes on asking the other side, which is aioice here too:
        # both would keep each other for ever.
        await connected.wait()
        call = Call(caller, microphone, answer)
        playing = asyncio.create_task(call.play(tracks[0]))
        try:
            yield call
        finally:
            playing.cancel()
            await asyncio.gather(playing, return_exceptions=True)
