"""The two duties: hearing and speaking, one request after the other, counted and bounded."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from time import perf_counter

from speech.audio import HEARING_RATE, Samples
from speech.engines.hearing import Hearing, Segment
from speech.engines.speaking import Speaking
from speech.errors import Busy
from speech.languages import code
from speech.metrics import SpeechMetrics
from speech.words import said, sentences


@dataclass(frozen=True)
class Transcript:
    """The text of a recording; `seconds` is the length of the audio, `segments` are its parts."""

    text: str
    language: str
    seconds: float
    segments: Sequence[Segment]


class Queue:
    """At most so many requests wait while one is worked on."""

    def __init__(self, most: int, metrics: SpeechMetrics) -> None:
        self._most, self._metrics = most, metrics
        self._waiting, self._turn = 0, asyncio.Lock()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for the engine; raises `Busy` when too many wait already."""
        if self._turn.locked() and self._waiting >= self._most:
            raise Busy(f"{self._waiting} requests wait already.")
        self._count(1)
        try:
            await self._turn.acquire()
        finally:
            self._count(-1)
        try:
            yield
        finally:
            self._turn.release()

    def _count(self, change: int) -> None:
        self._waiting += change
        self._metrics.waiting.set(self._waiting)


class Ears:
    """Speech-to-text of whole utterances. `language` is the default for requests."""

    def __init__(
        self, engine: Hearing, metrics: SpeechMetrics, max_waiting: int, language: str | None = None
    ) -> None:
        self.engine, self.metrics = engine, metrics
        self._language = None if language is None else code(language)
        self._queue = Queue(max_waiting, self.metrics)

    async def listen(
        self, samples: Samples, language: str | None = None
    ) -> AsyncGenerator[Segment]:
        """Yield the segments of the transcript as soon as they are known, without hallucinations.

        Raises `SpeechError`.
        """
        spoken = self._language if language is None else code(language)
        loudest = float(abs(samples).max(initial=0.0))
        seconds = len(samples) / HEARING_RATE
        async with self._queue.turn():
            began = perf_counter()
            async with aclosing(self.engine.hear(samples, language=spoken)) as found:
                async for part in found:
                    words = said(part.text, loudest=loudest, seconds=part.end - part.start)
                    if words:
                        # Whisper thinks in 30 seconds and may end a part after the sound.
                        start, end = min(part.start, seconds), min(part.end, seconds)
                        yield replace(part, text=words, start=start, end=end)
            self.metrics.worked(perf_counter() - began, seconds)

    async def hear(self, samples: Samples, language: str | None = None) -> Transcript:
        """Return the complete transcript; empty without speech. Raises `SpeechError`."""
        async with aclosing(self.listen(samples, language)) as found:
            return self.transcript([part async for part in found], samples, language)

    def transcript(
        self, found: Sequence[Segment], samples: Samples, language: str | None
    ) -> Transcript:
        """The parts as one."""
        heard_in = language or next((p.language for p in found if p.language), self._language)
        text = " ".join(part.text for part in found)
        seconds = len(samples) / HEARING_RATE
        return Transcript(text, heard_in or self.engine.language, seconds, found)


class Mouth:
    """Text-to-speech by sentence, so that the first one plays while the next is synthesised."""

    def __init__(self, engine: Speaking, metrics: SpeechMetrics, max_waiting: int) -> None:
        self.engine, self.metrics = engine, metrics
        self._queue = Queue(max_waiting, self.metrics)

    async def say(self, text: str, *, speed: float) -> AsyncGenerator[Samples]:
        """The sound of the text. Others take turns after each sentence. Raises `SpeechError`."""
        began, first = perf_counter(), True
        for sentence in sentences(text):
            made: asyncio.Queue[Samples | None] = asyncio.Queue()
            making = asyncio.create_task(self._make(sentence, speed, made))
            try:
                while (chunk := await made.get()) is not None:
                    if first:
                        self.metrics.first.observe(perf_counter() - began)
                        first = False
                    yield chunk
                await making
            finally:
                making.cancel()
                await asyncio.gather(making, return_exceptions=True)

    async def _make(
        self, sentence: str, speed: float, made: "asyncio.Queue[Samples | None]"
    ) -> None:
        """Synthesize one sentence at the engine's speed: a client that is slow, or has stopped
        reading, does not block other requests.
        """
        try:
            async with self._queue.turn():
                began, samples = perf_counter(), 0
                async with aclosing(self.engine.say(sentence, speed=speed)) as sound:
                    async for chunk in sound:
                        samples += len(chunk)
                        made.put_nowait(chunk)
                self.metrics.worked(perf_counter() - began, samples / self.engine.rate)
        finally:
            made.put_nowait(None)
