"""The application's interface to check and start workflows that a run has written."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pipecatapp.workflow import Effect
from pipecatapp.workflow.storage import Statement


@dataclass(frozen=True)
class Examined:
    """A document as it would run, or what is wrong with it."""

    diagnostics: list[str]
    plan: str = ""
    """Its graph, tools, effects, limits and bounds, for a person."""
    nodes: Sequence[Mapping[str, Any]] = ()
    tools: Sequence[str] = ()
    effects: Sequence[str] = ()
    steps: str = ""
    """How many steps it has at most, in words."""
    models: str = ""
    """The maximum number of model calls, in words."""


class Authoring(Protocol):
    """Checks and starts workflows."""

    async def examine(self, document: str, allow: Collection[Effect]) -> Examined:
        """A document as it would run with these effects."""

    async def start_child(
        self,
        workflow: str,
        inputs: Mapping[str, Any],
        *,
        parent: str,
        path: str,
        beside: Callable[[str], Sequence[Statement]],
    ) -> str:
        """Start a run for a step of another run, once; return its id."""


class Author:
    """The `Authoring` of the application, for `Context.service`."""

    def __init__(self, authoring: Authoring) -> None:
        self.authoring = authoring
