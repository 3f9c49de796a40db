"""The interface of what hears."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Protocol

from speech.audio import Samples


@dataclass(frozen=True)
class Segment:
    """A part of what was said; seconds from the beginning of the audio.

    `language` is what it was said in, where the engine finds that out. The rest is how sure Whisper
    is, by the names of OpenAI's API; other engines do not tell.
    """

    start: float
    end: float
    text: str
    language: str | None = None
    avg_logprob: float | None = None
    no_speech_prob: float | None = None
    compression_ratio: float | None = None


class Hearing(Protocol):
    """An engine that turns sound into text. `open` loads and warms it; only then it is used."""

    name: str
    language: str
    """What it hears, as ISO 639-1 has it: `en`; or `many`, which are those of Whisper."""

    async def open(self) -> None:
        """Load the model and hear something once. Raises `EngineFailed`."""

    async def close(self) -> None:
        """End it; what it is doing is lost."""

    def hear(self, samples: Samples, *, language: str | None) -> AsyncGenerator[Segment]:
        """What was said in these samples (of `HEARING_RATE`), each part as soon as it is known.

        `language` is the one that is spoken; None: the engine's only one, or it finds out. Raises
        `EngineFailed`.
        """
