"""The interface of text-to-speech engines."""

from collections.abc import AsyncGenerator
from typing import Protocol

from speech.audio import Samples


class Speaking(Protocol):
    """A text-to-speech voice. `open` loads it and synthesises a warm-up text; call it before
    `say`."""

    name: str
    language: str
    rate: int
    """Samples per second of its audio; set by `open`."""

    async def open(self) -> None:
        """Load the voice and synthesize once. Raises `EngineFailed`."""

    async def close(self) -> None:
        """End the engine; a synthesis in progress is lost."""

    def say(self, sentence: str, *, speed: float) -> AsyncGenerator[Samples]:
        """Synthesize one sentence; yield its audio in pieces. The caller may stop at any time.

        `speed` is 1 for the voice's own pace, 2 for twice as fast. Raises `EngineFailed`.
        """
