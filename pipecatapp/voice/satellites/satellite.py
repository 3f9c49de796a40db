"""A satellite as the person of a conversation: its microphone, its loudspeaker, its lamp."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Final

from wyoming.asr import Transcript
from wyoming.audio import AudioChunk, AudioChunkConverter, AudioStart, AudioStop
from wyoming.error import Error
from wyoming.pipeline import RunPipeline
from wyoming.tts import Synthesize
from wyoming.vad import VoiceStarted, VoiceStopped
from wyoming.wake import Detection

from pipecatapp.voice.messages import CANNOT_ANSWER, HEARD_RATE, Json
from pipecatapp.voice.satellites.wire import Wire
from pipecatapp.voice.talk import CallerLeft

SATELLITE_RATE: Final = 22_050
"""Default samples per second of a satellite's playback: those of Home Assistant."""

MOST_PIECES: Final = 1000
"""Pieces of sound that wait while the worker gets ready; satellites send 16 to 50 a second."""

PIECE_SECONDS: Final = 0.25
SILENCE: Final = bytes(2 * int(HEARD_RATE * PIECE_SECONDS))
"""Audio that replaces that of a muted microphone: silence ends a turn."""

CATCHING_UP: Final = 4
"""Speed factor for audio that was recorded before the worker was ready: sent all at once it
would exceed the voice detector's buffer, and its beginning would be lost."""

IDLE_SECONDS: Final = 10.0
"""A satellite that sends no audio for this time frees its session, and reconnects when it sends."""

NOTHING_SAID: Final = "stt-no-text-recognized"
"""Home Assistant's code for a pipeline without speech: the satellite stops listening."""


class Satellite:
    """One connection, while it talks. Events of Wyoming become our messages, and ours events."""

    def __init__(self, wire: Wire, *, rate: int, patience: float) -> None:
        self._wire, self._patience = wire, patience
        self._heard: asyncio.Queue[str | bytes] = asyncio.Queue(MOST_PIECES)
        self._convert = AudioChunkConverter(rate=HEARD_RATE, width=2, channels=1).convert
        self.rate = rate
        self._ready = asyncio.Event()
        self._last = time.monotonic()
        self._listening_since: float | None = None
        self._answering = self._sounding = False
        self._said = ""
        self._handlers: dict[str, Callable[[Json], Awaitable[None]]] = {
            "ready": self._listens,
            "woken": self._woken,
            "voice": self._voice,
            "asked": self._asked,
            "dismissed": self._asked,
            "words": self._words,
            "answered": self._answered,
            "state": self._state,
            "spoken": self._silent,
            "interrupted": self._silent,
            "trouble": self._trouble,
        }

    def runs(self, run: RunPipeline) -> None:
        """Start or restart the pipeline: with its own wake word, a satellite is transcribed at
        once."""
        self._last = time.monotonic()
        if run.start_stage.value != "wake":
            self._listening_since = self._last
            self._hear(json.dumps({"type": "wake"}))

    def hears(self, chunk: AudioChunk) -> None:
        """A piece of its microphone, in whatever format."""
        self._last = time.monotonic()
        self._hear(self._convert(chunk).audio)

    def falls_silent(self) -> None:
        """It has found the end of speech by itself."""
        self._hear(SILENCE)

    def _hear(self, heard: str | bytes) -> None:
        """Queue audio; the oldest is dropped when the queue is full."""
        if self._heard.full():
            self._heard.get_nowait()
        self._heard.put_nowait(heard)

    async def receive(self) -> str | bytes:
        """Return audio of the microphone, or silence. Raises `CallerLeft` when idle."""
        await self._ready.wait()
        try:
            async with asyncio.timeout(PIECE_SECONDS):
                heard = await self._heard.get()
            if not self._heard.empty():
                await asyncio.sleep(len(heard) / (2 * HEARD_RATE) / CATCHING_UP)
            return heard
        except TimeoutError:
            if self._idle:
                raise CallerLeft from None
            return SILENCE
        finally:
            await self._give_up()

    @property
    def _idle(self) -> bool:
        waits = self._answering or self._sounding or self._listening_since is not None
        return not waits and time.monotonic() - self._last > IDLE_SECONDS

    async def _give_up(self) -> None:
        """End the window if nobody speaks after the wake word."""
        since = self._listening_since
        if since is not None and time.monotonic() - since > self._patience:
            self._listening_since = None
            await self._wire.write(Error(text="Nobody spoke.", code=NOTHING_SAID))

    async def send(self, message: str | bytes) -> None:
        """Send audio and messages of the agent. Raises `CallerLeft`."""
        if isinstance(message, bytes):
            await self._sound(message)
            return
        told: Json = json.loads(message)
        handler = self._handlers.get(told["type"])
        if handler is not None:
            await handler(told)

    async def _sound(self, audio: bytes) -> None:
        shape = {"rate": self.rate, "width": 2, "channels": 1}
        if not self._sounding:
            self._sounding = True
            await self._wire.write(AudioStart(**shape))
        await self._wire.write(AudioChunk(**shape, audio=audio))

    async def _silent(self, told: Json) -> None:
        """All of the answer has been sent, or it was stopped."""
        self._answering = False
        if self._sounding:
            self._sounding = False
            await self._wire.write(AudioStop())

    async def _state(self, told: Json) -> None:
        """End an apology, which has no start and end messages, when its audio ends."""
        if told["state"] == "listening" and not self._answering:
            await self._silent(told)

    async def _listens(self, told: Json) -> None:
        self._ready.set()
        if self._listening_since is not None:
            self._listening_since = time.monotonic()

    async def _woken(self, told: Json) -> None:
        self._listening_since = time.monotonic()
        await self._wire.write(Detection(name=told["word"]))

    async def _voice(self, told: Json) -> None:
        if not told["speaking"]:
            await self._wire.write(VoiceStopped())
            return
        if self._listening_since is not None:
            self._listening_since = time.monotonic()
        await self._wire.write(VoiceStarted())

    async def _asked(self, told: Json) -> None:
        self._listening_since, self._said = None, ""
        self._answering = told["type"] == "asked"
        await self._wire.write(Transcript(text=told["text"]))

    async def _words(self, told: Json) -> None:
        self._said += told["text"]

    async def _answered(self, told: Json) -> None:
        await self._wire.write(Synthesize(text=self._said))

    async def _trouble(self, told: Json) -> None:
        """Handle an error of a service: a spoken apology for a failed model is an answer."""
        if told["part"] == "model":
            self._said = CANNOT_ANSWER
            return
        self._listening_since = None
        await self._wire.write(Error(text=told["text"], code=f"voice-{told['part']}"))
