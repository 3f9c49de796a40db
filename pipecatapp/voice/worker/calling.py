"""A WebRTC call: audio is sent directly to the browser, messages over the WebSocket.

The offer is part of the hello of a conversation, after its login; no STUN or TURN server is used.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from aiortc.exceptions import InvalidAccessError, InvalidStateError
from pipecat.frames.frames import Frame, InterruptionFrame
from pipecat.pipeline.worker import PipelineWorker
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.transports.base_transport import BaseTransport, TransportParams
from pipecat.transports.smallwebrtc.connection import SmallWebRTCConnection
from pipecat.transports.smallwebrtc.transport import SmallWebRTCTransport
from pipecat.transports.websocket.fastapi import FastAPIWebsocketParams, FastAPIWebsocketTransport
from starlette.websockets import WebSocket

from pipecatapp.voice.worker.line import Line
from pipecatapp.voice.worker.wire import Wire

NO_OFFER: Final = (ValueError, LookupError, AssertionError, InvalidAccessError, InvalidStateError)
"""Errors of aiortc for a text that is not an offer, or for an offer without audio."""


class NoCall(Exception):
    """The offer cannot be answered; the page uses its own connection."""


@asynccontextmanager
async def sounding(
    socket: WebSocket, offer: str | None, wire: Wire, line: Line
) -> AsyncIterator[BaseTransport]:
    """Yield the transport of audio: the socket, or a call if one is offered.

    Raises `NoCall`.
    """
    if offer is None:
        yield FastAPIWebsocketTransport(
            socket,
            FastAPIWebsocketParams(
                audio_in_enabled=True, audio_out_enabled=True, add_wav_header=False,
                serializer=wire, allowed_origins=[],
            ),
        )  # fmt: skip
        return
    async with answered(offer, line) as transport:
        yield transport


@asynccontextmanager
async def answered(offer: str, line: Line) -> AsyncIterator[SmallWebRTCTransport]:
    """Yield the transport of a call after its answer was sent; the call is ended at the end."""
    call = SmallWebRTCConnection(ice_servers=[])
    try:
        try:
            await call.initialize(sdp=offer, type="offer")
        except NO_OFFER as error:
            raise NoCall(repr(error)) from error
        if not any(one.kind == "audio" for one in call.pc.getTransceivers()):
            raise NoCall("the offer has no sound")
        answer = call.get_answer()  # type: ignore[no-untyped-call]
        assert answer is not None
        await line.tell(type="answer", sdp=answer["sdp"])
        yield SmallWebRTCTransport(
            webrtc_connection=call,
            params=TransportParams(audio_in_enabled=True, audio_out_enabled=True),
        )
    finally:
        await call.disconnect()  # type: ignore[no-untyped-call]


class InterruptionReporter(FrameProcessor):
    """At the end of the pipeline: reports an interrupted answer, as `Wire` does."""

    def __init__(self, line: Line) -> None:
        super().__init__()
        self._line = line

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, InterruptionFrame):
            await self._line.tell(type="interrupted")
        await self.push_frame(frame, direction)


async def read(socket: WebSocket, wire: Wire, worker: PipelineWorker) -> None:
    """Forward messages of the page; a closed socket ends the call. Audio is dropped here."""
    try:
        while (message := await socket.receive())["type"] != "websocket.disconnect":
            text = message.get("text")
            frame = None if text is None else await wire.deserialize(text)
            if frame is not None:
                await worker.queue_frame(frame)
    finally:
        await worker.cancel()
