"""The two duties: hearing and speaking, one request after the other, counted and bounded."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from time import perf_counter

from prometheus_client import CollectorRegistry

from speech.audio import HEARING_RATE, Samples
from speech.engines.hearing import Hearing, Segment
from speech.engines.speaking import Speaking
from speech.errors import Busy
from speech.metrics import SpeechMetrics
from speech.words import said, sentences


@dataclass(frozen=True)
class Transcript:
    """What was said; `seconds` is the length of the audio, `segments` are its parts."""

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
    """Hears whole utterances."""

    def __init__(self, engine: Hearing, registry: CollectorRegistry, max_waiting: int) -> None:
        self.engine, self.metrics = engine, SpeechMetrics(registry, "stt")
        self._queue = Queue(max_waiting, self.metrics)

    async def hear(self, samples: Samples) -> Transcript:
        """What was said in the samples; empty when that is nothing. Raises `SpeechError`."""
        seconds = len(samples) / HEARING_RATE
        loudest = float(abs(samples).max(initial=0.0))
        async with self._queue.turn():
            began = perf_counter()
            found = await self.engine.hear(samples)
            self.metrics.worked(perf_counter() - began, seconds)
        cleaned = [
            replace(part, text=said(part.text, loudest=loudest, seconds=part.end - part.start))
            for part in found
        ]
        kept = [part for part in cleaned if part.text]
        text = " ".join(part.text for part in kept)
        return Transcript(text, self.engine.language, seconds, kept)


class Mouth:
    """Speaks texts, sentence by sentence, so that the first is heard while the next is made."""

    def __init__(self, engine: Speaking, registry: CollectorRegistry, max_waiting: int) -> None:
        self.engine, self.metrics = engine, SpeechMetrics(registry, "tts")
        self._queue = Queue(max_waiting, self.metrics)

    async def say(self, text: str, *, speed: float) -> AsyncGenerator[Samples]:
        """The sound of the text. Others take turns after each sentence. Raises `SpeechError`."""
        began, first = perf_counter(), True
        for sentence in sentences(text):
            async with self._queue.turn():
                began_sentence, samples = perf_counter(), 0
                async with aclosing(self.engine.say(sentence, speed=speed)) as sound:
                    async for chunk in sound:
                        if first:
                            self.metrics.first.observe(perf_counter() - began)
                            first = False
                        samples += len(chunk)
                        yield chunk
                self.metrics.worked(perf_counter() - began_sentence, samples / self.engine.rate)
