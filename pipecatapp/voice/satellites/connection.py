"""Connection of a Wyoming client: transcribe, speak, answer, or hold a conversation."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import structlog
from wyoming.asr import Transcribe, Transcript
from wyoming.audio import AudioChunk, AudioChunkConverter, AudioStart, AudioStop
from wyoming.error import Error
from wyoming.event import Event, Eventable
from wyoming.handle import Handled, NotHandled
from wyoming.info import Describe
from wyoming.ping import Ping, Pong
from wyoming.pipeline import RunPipeline
from wyoming.tts import (
    Synthesize,
    SynthesizeChunk,
    SynthesizeStart,
    SynthesizeStop,
    SynthesizeStopped,
)

from pipecatapp.voice.clauses import Clauses
from pipecatapp.voice.messages import CANNOT_ANSWER, HEARD_RATE, SPOKEN_RATE
from pipecatapp.voice.satellites.conversation import Conversations
from pipecatapp.voice.satellites.engines import EngineFailed, Engines
from pipecatapp.voice.satellites.satellite import SATELLITE_RATE, Satellite
from pipecatapp.voice.satellites.wire import Wire
from pipecatapp.voice.studio import NoSpeech
from pipecatapp.voice.talk import CallerLeft, RunFailed

log = structlog.get_logger()

AGAIN_SECONDS: Final = 5.0
LONGEST_SECONDS: Final = 120
"""Of one recording that is to be transcribed."""

LONGEST_TEXT: Final = 100_000
"""Characters that are spoken as one text in pieces: an hour and a half."""


class Connection:
    """One client, until it disconnects. `read` continues while a request is processed."""

    def __init__(self, wire: Wire, conversations: Conversations) -> None:
        self._wire, self._conversations = wire, conversations
        self._tasks: set[asyncio.Task[None]] = set()
        self._satellite: Satellite | None = None
        self._always: Event | None = None
        self._began = 0.0
        self._recording: bytearray | None = None
        self._convert = AudioChunkConverter(rate=HEARD_RATE, width=2, channels=1).convert
        self._language: str | None = None
        self._text: asyncio.Queue[str | None] | None = None
        self._written = 0
        handlers: dict[type[Eventable], Callable[[Event], Awaitable[None]]] = {
            Describe: self._describe,
            Ping: self._ping,
            RunPipeline: self._run_pipeline,
            Transcribe: self._transcribe,
            AudioStart: self._audio_start,
            AudioChunk: self._audio_chunk,
            AudioStop: self._audio_stop,
            Transcript: self._transcript,
            Synthesize: self._synthesize,
            SynthesizeStart: self._synthesize_start,
            SynthesizeChunk: self._synthesize_chunk,
            SynthesizeStop: self._synthesize_stop,
        }
        self._handlers = handlers

    async def serve(self) -> None:
        """Serve the client until it disconnects; pending requests are then cancelled."""
        try:
            while True:
                await self._handle(await self._wire.read())
        except CallerLeft:
            return
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._wire.close()

    async def _handle(self, event: Event) -> None:
        for kind, handler in self._handlers.items():
            if kind.is_type(event.type):
                try:
                    await handler(event)
                except (KeyError, TypeError, ValueError) as error:
                    reason = type(error).__name__  # The message may contain spoken text.
                    log.info("wyoming_event_refused", type=event.type, reason=reason)
                    await self._fail(f"{event.type} is not as it should be", "invalid-event")
                return

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, work: Awaitable[None]) -> None:
        """Run `work`; report a failure to the client, and keep the connection."""
        try:
            await work
        except (EngineFailed, NoSpeech) as error:
            log.warning("wyoming_request_failed", reason=str(error))
            await self._fail(str(error), "speech-failed")
        except CallerLeft:
            return
        except Exception:
            log.exception("wyoming_request_broke")
            await self._fail("The agent failed here; see its log.", "internal-error")

    async def _fail(self, text: str, code: str) -> None:
        try:
            await self._wire.write(Error(text=text, code=code))
        except CallerLeft:
            return

    async def _describe(self, event: Event) -> None:
        self._spawn(self._introduce())

    async def _introduce(self) -> None:
        await self._wire.write(await self._conversations.description())

    async def _ping(self, event: Event) -> None:
        await self._wire.write(Pong(text=Ping.from_event(event).text))

    # A conversation

    async def _run_pipeline(self, event: Event) -> None:
        run = RunPipeline.from_event(event)
        self._always = event if run.restart_on_end else None
        if self._satellite is None:
            self._began = time.monotonic()
            played = event.data.get("snd_format") or {}
            rate = int(played.get("rate") or SATELLITE_RATE)
            self._satellite = self._conversations.satellite(self._wire, rate)
            self._spawn(self._converse(self._satellite, run))
        self._satellite.runs(run)

    async def _converse(self, satellite: Satellite, run: RunPipeline) -> None:
        try:
            await self._conversations.hold(satellite, self._wire, run)
        finally:
            self._satellite = None

    @property
    def _may_begin_again(self) -> bool:
        """Return whether a conversation may start again for a satellite that streams
        continuously."""
        return time.monotonic() - self._began > AGAIN_SECONDS

    # Hearing

    async def _transcribe(self, event: Event) -> None:
        self._language = Transcribe.from_event(event).language

    async def _audio_start(self, event: Event) -> None:
        if self._satellite is None:
            self._recording = bytearray()

    async def _audio_chunk(self, event: Event) -> None:
        chunk = AudioChunk.from_event(event)
        if self._always is not None and self._satellite is None and self._may_begin_again:
            await self._run_pipeline(self._always)
        if self._satellite is not None:
            self._satellite.hears(chunk)
        elif self._recording is not None and len(self._recording) < longest():
            self._recording += self._convert(chunk).audio

    async def _audio_stop(self, event: Event) -> None:
        if self._satellite is not None:
            self._satellite.falls_silent()
        elif self._recording is not None:
            sound, self._recording = bytes(self._recording), None
            self._spawn(self._hear(sound, self._language))

    async def _hear(self, sound: bytes, language: str | None) -> None:
        async with Engines.opened(await self._conversations.setup()) as engines:
            text = await engines.heard(sound, language) if sound else ""
        await self._wire.write(Transcript(text=text, language=language))

    # Answering

    async def _transcript(self, event: Event) -> None:
        self._spawn(self._answer(Transcript.from_event(event)))

    async def _answer(self, said: Transcript) -> None:
        name = (said.context or {}).get("conversation_id") or uuid.uuid4().hex[:12]
        try:
            text = await self._conversations.answer(said.text, f"wyoming-{name}"[:200])
        except RunFailed as error:
            log.warning("wyoming_run_failed", reason=str(error))
            await self._wire.write(NotHandled(text=CANNOT_ANSWER, context=said.context))
        else:
            await self._wire.write(Handled(text=text, context=said.context))

    # Speaking

    async def _synthesize(self, event: Event) -> None:
        """Speak a text. After a text in parts the whole text is sent again, for older programs."""
        if self._text is None:
            asked = Synthesize.from_event(event)
            voice = asked.voice.name if asked.voice else None
            self._spawn(self._speak(once(asked.text), voice))

    async def _synthesize_start(self, event: Event) -> None:
        asked = SynthesizeStart.from_event(event)
        self._text, self._written = asyncio.Queue(), 0
        voice = asked.voice.name if asked.voice else None
        self._spawn(self._speak(pieces(self._text), voice, streamed=True))

    async def _synthesize_chunk(self, event: Event) -> None:
        if self._text is None:
            return
        text = SynthesizeChunk.from_event(event).text
        self._written += len(text)
        if self._written > LONGEST_TEXT:
            await self._synthesize_stop(event)
            raise ValueError(f"a text of more than {LONGEST_TEXT} characters")
        self._text.put_nowait(text)

    async def _synthesize_stop(self, event: Event) -> None:
        if self._text is not None:
            self._text.put_nowait(None)
            self._text = None

    async def _speak(
        self, texts: AsyncIterator[str], voice: str | None, *, streamed: bool = False
    ) -> None:
        shape = {"rate": SPOKEN_RATE, "width": 2, "channels": 1}
        async with Engines.opened(await self._conversations.setup()) as engines:
            await self._wire.write(AudioStart(**shape))
            async for text in texts:
                async for sound in engines.spoken(text, voice):
                    await self._wire.write(AudioChunk(**shape, audio=sound))
        await self._wire.write(AudioStop())
        if streamed:
            await self._wire.write(SynthesizeStopped())


def longest() -> int:
    """Bytes of the longest recording."""
    return LONGEST_SECONDS * HEARD_RATE * 2


async def once(text: str) -> AsyncIterator[str]:
    """A text that exists already."""
    if text.strip():
        yield text


async def pieces(texts: "asyncio.Queue[str | None]") -> AsyncIterator[str]:
    """A text that is still being written, as clauses."""
    clauses = Clauses()
    while (text := await texts.get()) is not None:
        for piece in clauses.feed(text):
            yield piece
    for piece in clauses.flush():
        yield piece
