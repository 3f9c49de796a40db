"""The voice worker as the detector of turns: it hears the client, and others answer."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Final

import structlog
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from pipecatapp.voice.messages import HEARD_RATE, Json, Setup
from pipecatapp.voice.realtime.wire import EventRefused
from pipecatapp.voice.studio import NoSpeech, Studio
from pipecatapp.voice.workers import WorkerFailed

log = structlog.get_logger()

PIECE: Final = 2 * HEARD_RATE // 10
"""Bytes of a tenth of a second, the longest piece that the worker receives at once."""

CATCHING_UP: Final = 4
"""Speed factor for audio that waits: more at once would exceed the buffer of voice detection."""

MOST_SECONDS: Final = 120
"""Audio that may wait for the worker."""


class Hearing:
    """The turns of one client, from its first audio on. `report` is called with each message of
    the worker. Audio has `HEARD_RATE`.
    """

    def __init__(
        self, studio: Studio, setup: Setup, report: Callable[[Json], Awaitable[None]]
    ) -> None:
        self._studio, self._setup, self._report = studio, setup, report
        self._waiting: asyncio.Queue[bytes] = asyncio.Queue()
        self._bytes = 0

    def hear(self, audio: bytes) -> None:
        """Add audio. Raises `EventRefused` if too much of it waits."""
        if self._bytes + len(audio) > MOST_SECONDS * 2 * HEARD_RATE:
            message = f"More than {MOST_SECONDS} seconds of audio wait: send it as it is recorded."
            raise EventRefused("input_audio_buffer_too_large", message, "audio")
        for start in range(0, len(audio), PIECE):
            self._waiting.put_nowait(audio[start : start + PIECE])
        self._bytes += len(audio)

    def clear(self) -> None:
        """Drop the audio that waits."""
        self._waiting, self._bytes = asyncio.Queue(), 0

    async def run(self) -> None:
        """Find turns until the task is cancelled. Raises `EventRefused` where that is not
        possible, and when the worker ends.
        """
        ended = self._studio.metrics.ended
        if not self._studio.admits():
            raise EventRefused("voice_busy", "All voice sessions are in use. Try again.")
        try:
            async with self._studio.session() as (worker, _):
                await self._listen(worker)
        except asyncio.CancelledError:
            ended.labels("left").inc()
            raise
        except (NoSpeech, WorkerFailed, ConnectionClosed) as error:
            log.warning("voice_refused", reason=str(error))
        ended.labels("broken").inc()
        raise EventRefused("voice_failed", "Voice detection ended unexpectedly; send more audio.")

    async def _listen(self, worker: ClientConnection) -> None:
        await worker.send(self._setup.model_dump_json())
        sending: asyncio.Task[None] | None = None
        try:
            async for message in worker:
                if isinstance(message, bytes):
                    continue  # An apology, for clients that the worker speaks to.
                event: Json = json.loads(message)
                if event["type"] == "ready" and sending is None:
                    sending = asyncio.create_task(self._send(worker))
                if event["type"] == "ask":  # The answer is written and spoken elsewhere.
                    done = {"type": "answered", "turn": event["turn"]}
                    await worker.send(json.dumps(done))
                await self._report(event)
        finally:
            if sending is not None:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)

    async def _send(self, worker: ClientConnection) -> None:
        while True:
            piece = await self._waiting.get()
            self._bytes = max(0, self._bytes - len(piece))
            await worker.send(piece)
            if not self._waiting.empty():
                await asyncio.sleep(len(piece) / (2 * HEARD_RATE) / CATCHING_UP)
