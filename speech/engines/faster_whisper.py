"""faster-whisper: Whisper in CTranslate2, with weights of 8 bits.

Source: Radford et al., "Robust Speech Recognition via Large-Scale Weak Supervision" (2022).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from faster_whisper import WhisperModel

from speech.audio import Samples
from speech.engines.hearing import Segment

BEAMS: Final = 1
"""Beam size: more beams do not improve short commands (decision 0135)."""


class FasterWhisper:
    """One model, for one request at a time; used in a separate process."""

    def __init__(self, folder: Path, threads: int) -> None:
        self._model = WhisperModel(
            str(folder), device="cpu", compute_type="int8", cpu_threads=threads,
            local_files_only=True,
        )  # fmt: skip

    def hear(self, samples: Samples, language: str | None) -> Iterator[Segment]:
        """Yield the segments as soon as they are transcribed; deterministic for the same audio."""
        found, told = self._model.transcribe(
            samples, language=language, beam_size=BEAMS, temperature=0.0,
            condition_on_previous_text=False,
        )  # fmt: skip
        for part in found:
            yield Segment(
                start=part.start, end=part.end, text=part.text.strip(), language=told.language,
                avg_logprob=part.avg_logprob, no_speech_prob=part.no_speech_prob,
                compression_ratio=part.compression_ratio,
            )  # fmt: skip


def load(folder: Path, threads: int) -> FasterWhisper:
    return FasterWhisper(folder, threads)
