"""Which places there are beside this machine, by the word that `where` has for them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pipecatapp.sandbox import Outcome
from pipecatapp.sandbox.errand import Errand
from pipecatapp.workflow import ToolFailed


class Elsewhere(Protocol):
    """A place where programs run."""

    async def run(
        self, call: str, errand: Errand, folder: Path, *, leaving: Callable[[], bool]
    ) -> Outcome:
        """Run a program on a copy of the folder, and bring back what it changed.

        The same `call` finds what was begun before. A cancelled one is ended there, too, unless the
        service is `leaving`. Raises `ToolFailed`.
        """


@dataclass(frozen=True)
class Places:
    """The places that this service knows; `missing` says why it has not another one."""

    known: dict[str, Elsewhere] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def named(self, where: str) -> Elsewhere:
        """Raises `ToolFailed` with what to set."""
        if where not in self.known:
            why = self.missing.get(where, "nothing of that kind is set up")
            raise ToolFailed(f"Programs cannot run where: {where} here: {why}.")
        return self.known[where]
