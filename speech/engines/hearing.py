"""The interface of speech-to-text engines."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Protocol

from speech.audio import Samples


@dataclass(frozen=True)
class Segment:
    """A segment of a transcript; times in seconds from the start of the audio.

    `language` is the language if the engine detects it. The other fields are Whisper's confidence,
    with the names of OpenAI's API; other engines do not set them.
    """

    start: float
    end: float
    text: str
    language: str | None = None
    avg_logprob: float | None = None
    no_speech_prob: float | None = None
    compression_ratio: float | None = None


class Hearing(Protocol):
    """A speech-to-text engine. `open` loads it and transcribes once; call it before `hear`."""

    name: str
    language: str
    """Its language as an ISO 639-1 code, or `many`: the languages of Whisper."""

    async def open(self) -> None:
        """Load the model and transcribe once. Raises `EngineFailed`."""

    async def close(self) -> None:
        """End the engine; a transcription in progress is lost."""

    def hear(self, samples: Samples, *, language: str | None) -> AsyncGenerator[Segment]:
        """Transcribe samples (at `HEARING_RATE`); yield each segment as soon as it is known.

        `language`: the spoken language; None: the engine's only language, or detected. Raises
        `EngineFailed`.
        """
