"""Our end of the pipe to Piper, which runs in its own process (see `piper_process`)."""

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

from speech.audio import Samples, from_pcm
from speech.engines.child import Keeper, PipedEngine
from speech.metrics import SpeechMetrics


class Piper:
    """One voice. Requests take turns by sentence."""

    def __init__(
        self, name: str, language: str, model: Path, *, most_bytes: int, metrics: SpeechMetrics
    ) -> None:
        self.name, self.language, self.rate = name, language, 0

        async def start() -> PipedEngine:
            return await PipedEngine.start(name, "speech.engines.piper_process", str(model))

        self._keeper = Keeper(name, start, most_bytes=most_bytes, metrics=metrics)

    async def open(self) -> None:
        """Start the process and wait for its greeting."""
        self.rate = (await self._keeper.open()).greeting["rate"]

    async def close(self) -> None:
        await self._keeper.close()

    async def say(self, sentence: str, *, speed: float) -> AsyncGenerator[Samples]:
        """Yield the samples of one sentence; if the caller stops early, the rest is discarded."""
        asked = json.dumps({"text": " ".join(sentence.split()), "speed": speed}).encode()
        async with self._keeper.turn() as child, aclosing(child.ask(asked)) as blocks:
            async for block in blocks:
                yield from_pcm(block)
