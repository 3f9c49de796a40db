"""The engine: starts runs, resumes them, and tells what happens in them."""

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, Self

from pipecatapp.workflow.channel import Delta, Listener
from pipecatapp.workflow.document import Prompt, Workflow
from pipecatapp.workflow.ledger import Event, Ledger
from pipecatapp.workflow.plan import Plan
from pipecatapp.workflow.tool import Tool
from pipecatapp.workflow.views import RunResult, RunSummary, RunView, Turn


class Engine:
    """`async with Engine(ledger, tools=…) as engine`: holds the ledger's lease while it is open."""

    def __init__(
        self,
        ledger: Ledger,
        *,
        tools: Iterable[Tool],
        workflows: Iterable[Workflow] = (),
        prompts: Iterable[Prompt] = (),
        services: Mapping[Any, object] | None = None,
        roles: Mapping[str, str] | None = None,
    ) -> None: ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_exc: object) -> None: ...

    def plan(self, workflow: str | Workflow) -> Plan: ...

    async def start(
        self,
        workflow: str | Plan,
        inputs: Mapping[str, Any],
        *,
        conversation: str | None = None,
        caller: str = "",
        listener: Listener | None = None,
    ) -> str: ...

    async def wait(self, run: str) -> RunResult: ...

    def follow(self, run: str, *, after: int = 0) -> AsyncIterator[Event]: ...

    def listen(self, run: str, *, after: int | None = None) -> AsyncIterator[Delta | Event]: ...

    async def cancel(self, run: str) -> None: ...

    async def resume_unfinished(self) -> list[str]: ...

    def runs(
        self,
        *,
        limit: int = 50,
        before: str | None = None,
        workflow: str | None = None,
        conversation: str | None = None,
    ) -> list[RunSummary]: ...

    def run(self, run: str) -> RunView: ...

    def conversation(self, id: str, limit: int = 20) -> list[Turn]: ...
