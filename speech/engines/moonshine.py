"""Moonshine: a small English model, made for live speech (ONNX Runtime in C++).

Its cost grows with the length of the audio, where Whisper always computes 30 seconds. Source:
Jeffries et al., "Moonshine: Speech Recognition for Live Transcription and Voice Commands" (2024).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
from moonshine_voice import Transcriber, string_to_model_arch

from speech.audio import HEARING_RATE, Samples
from speech.engines.hearing import Segment

ARCHITECTURE: Final = "tiny"
LEAD_IN: Final = np.zeros(HEARING_RATE // 4, np.float32)
"""Silence before and after the sound: without it the model invents a sound for the hard edge."""

LEAD_SECONDS: Final = len(LEAD_IN) / HEARING_RATE


class Moonshine:
    """One model, for one request at a time; used in a separate process."""

    def __init__(self, folder: Path) -> None:
        self._model = Transcriber(folder, string_to_model_arch(ARCHITECTURE))

    def hear(self, samples: Samples, language: str | None) -> Iterator[Segment]:
        """Yield the lines of the transcript, all at the end."""
        padded = np.concatenate([LEAD_IN, samples, LEAD_IN])
        end = len(samples) / HEARING_RATE
        found = self._model.transcribe_without_streaming(padded.tolist(), HEARING_RATE)
        for line in found.lines:
            yield Segment(
                start=min(end, max(0.0, line.start_time - LEAD_SECONDS)),
                end=min(end, max(0.0, line.start_time + line.duration - LEAD_SECONDS)),
                text=line.text.strip(),
            )


def load(folder: Path, threads: int) -> Moonshine:
    """Load the model; it selects the number of threads itself."""
    return Moonshine(folder)
