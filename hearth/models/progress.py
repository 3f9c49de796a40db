"""Progress reports of a pull."""

import time
from collections.abc import Callable
from typing import Protocol


class Progress(Protocol):
    """Receiver of the progress of a pull, called from the pulling thread. An exception ends the
    pull."""

    def step(self, text: str) -> None:
        """Report the start of a part: `downloading`, `checking`, `waiting for another pull`."""

    def moved(self, done: int, total: int | None) -> None:
        """Report the bytes of this step that are done, and the total if it is known."""

    def pause(self, seconds: float) -> None:
        """Wait before the next attempt."""

    def reading(self, interrupt: Callable[[], None]) -> None:
        """Take the function that ends the reads which follow; another thread may call it."""


class Silent:
    """Discards all progress reports."""

    def step(self, text: str) -> None:
        """Do nothing."""

    def moved(self, done: int, total: int | None) -> None:
        """Do nothing."""

    def pause(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def reading(self, interrupt: Callable[[], None]) -> None:
        """Do nothing."""
