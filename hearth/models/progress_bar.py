"""A progress bar for pulls at a terminal. Services, which have no terminal, do not import rich."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars


class Bar:
    """A progress bar; without a terminal, only its last state is printed. A context manager."""

    def __init__(self, name: str, console: Console) -> None:
        self.name = name
        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TimeRemainingColumn(),
            console=console,
        )
        self._task = self._bars.add_task(name, total=None, visible=False)

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bars.stop()

    def step(self, text: str) -> None:
        """Restart the progress bar with another description."""
        description = f"{self.name}: {text}"
        self._bars.reset(self._task, total=None, visible=True, description=description)

    def moved(self, done: int, total: int | None) -> None:
        """Move the bar."""
        self._bars.update(self._task, completed=done, total=total)

    def pause(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def reading(self, interrupt: Callable[[], None]) -> None:
        """Do nothing: a signal ends a read in the main thread."""
