"""The interface of what hears."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from speech.audio import Samples


@dataclass(frozen=True)
class Segment:
    """A part of what was said; seconds from the beginning of the audio."""

    start: float
    end: float
    text: str


class Hearing(Protocol):
    """An engine that turns sound into text. `open` loads and warms it; only then it is used."""

    name: str
    language: str
    """The one language that it hears, as ISO 639-1 has it: `en`."""

    async def open(self) -> None:
        """Load the model and hear something once. Raises `EngineFailed`."""

    async def close(self) -> None:
        """End it; what it is doing is lost."""

    async def hear(self, samples: Samples) -> Sequence[Segment]:
        """What was said in these samples (of `HEARING_RATE`). Raises `EngineFailed`."""
