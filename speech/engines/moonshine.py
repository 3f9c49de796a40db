"""Moonshine: a small English model, made for live speech, in this process (ONNX Runtime in C++).

Its cost grows with the length of the audio, where Whisper always computes 30 seconds. Source:
Jeffries et al., "Moonshine: Speech Recognition for Live Transcription and Voice Commands" (2024).
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import numpy as np
from moonshine_voice import MoonshineError, Transcriber, string_to_model_arch

from speech.audio import HEARING_RATE, Samples
from speech.engines.hearing import Segment
from speech.errors import EngineFailed

ARCHITECTURE: Final = "tiny"
LEAD_IN: Final = np.zeros(HEARING_RATE // 4, np.float32)
"""Silence before and after the sound: without it the model invents a sound for the hard edge."""

LEAD_SECONDS: Final = len(LEAD_IN) / HEARING_RATE


class Moonshine:
    """One model in one thread of its own: the engine is not re-entrant."""

    def __init__(self, name: str, language: str, folder: Path) -> None:
        self.name, self.language, self._folder = name, language, folder
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="moonshine")
        self._model: Any = None

    async def open(self) -> None:
        await self._in_thread(self._load)
        await self.hear(np.zeros(HEARING_RATE, np.float32))

    async def close(self) -> None:
        if self._model is not None:
            await self._in_thread(self._model.close)
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def hear(self, samples: Samples) -> Sequence[Segment]:
        padded = np.concatenate([LEAD_IN, samples, LEAD_IN])
        end = len(samples) / HEARING_RATE
        lines = await self._in_thread(self._lines, padded.tolist())
        return [
            Segment(
                start=min(end, max(0.0, line.start_time - LEAD_SECONDS)),
                end=min(end, max(0.0, line.start_time + line.duration - LEAD_SECONDS)),
                text=line.text.strip(),
            )
            for line in lines
        ]

    def _load(self) -> None:
        self._model = Transcriber(self._folder, string_to_model_arch(ARCHITECTURE))

    def _lines(self, samples: list[float]) -> list[Any]:
        lines: list[Any] = self._model.transcribe_without_streaming(samples, HEARING_RATE).lines
        return lines

    async def _in_thread(self, work: Any, *arguments: Any) -> Any:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)
        except MoonshineError as error:
            raise EngineFailed(f"{self.name} failed: {error}.") from error
