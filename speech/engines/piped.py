"""The service's end of the pipe to a speech-to-text process (see `hearing_process`)."""

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import numpy as np

from speech.audio import Samples
from speech.engines.child import Keeper, PipedEngine
from speech.engines.hearing import Segment
from speech.metrics import SpeechMetrics


class PipedHearing:
    """Moonshine or faster-whisper: neither its memory nor its crashes are the service's."""

    def __init__(
        self,
        name: str,
        language: str,
        engine: str,
        folder: Path,
        *,
        threads: int,
        most_bytes: int,
        metrics: SpeechMetrics,
    ) -> None:
        self.name, self.language = name, language

        async def start() -> PipedEngine:
            module = "speech.engines.hearing_process"
            return await PipedEngine.start(name, module, engine, str(folder), str(threads))

        self._keeper = Keeper(name, start, most_bytes=most_bytes, metrics=metrics)

    async def open(self) -> None:
        await self._keeper.open()

    async def close(self) -> None:
        await self._keeper.close()

    async def hear(self, samples: Samples, *, language: str | None) -> AsyncGenerator[Segment]:
        asked = json.dumps({"language": language}).encode()
        sound = np.ascontiguousarray(samples, "<f4").tobytes()
        async with self._keeper.turn() as child, aclosing(child.ask(asked, sound)) as blocks:
            async for block in blocks:
                yield Segment(**json.loads(block))
