"""The interface of what speaks."""

from collections.abc import AsyncGenerator
from typing import Protocol

from speech.audio import Samples


class Speaking(Protocol):
    """A voice. `open` loads and warms it; only then it is used."""

    name: str
    language: str
    rate: int
    """Samples a second of what it says; known once it is open."""

    async def open(self) -> None:
        """Load the voice and say something once. Raises `EngineFailed`."""

    async def close(self) -> None:
        """End it; what it is doing is lost."""

    def say(self, sentence: str, *, speed: float) -> AsyncGenerator[Samples]:
        """The sound of one sentence, piece by piece; a listener may leave in the middle.

        `speed` is 1 for the voice's own pace, 2 for twice as fast. Raises `EngineFailed`.
        """
