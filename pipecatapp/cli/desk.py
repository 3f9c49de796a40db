"""Where a command's work is done: in the running instance, or in the state directory itself."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

from hearth.service.logs import configure_logs
from hearth.service.settings import read_key
from hearth.service.state import StateDir, ensure_state_dir, read_instance
from hearth.settings import Settings as HearthSettings
from pipecatapp.cli.remote import RemoteDesk
from pipecatapp.cli.start import Start
from pipecatapp.library.runs.steps import changes, pinned
from pipecatapp.runs import Document, FlatForm, Fork, Runs
from pipecatapp.settings import Settings
from pipecatapp.wiring import Assembly, open_engine

Json = dict[str, Any]


class Desk(Protocol):
    """The same answers, JSON as the API gives it, wherever they come from."""

    async def plan(self, document: Document) -> Json: ...

    async def foresee(self, document: Document, look: Json) -> Json:
        """What would be called; `look` holds `inputs`, `run` and `at`."""
        ...

    async def explain(self, document: Document, path: str) -> list[Json]: ...

    async def flat(self, document: Document, form: FlatForm) -> str: ...

    async def start(self, start: Start) -> str: ...

    def follow(self, run: str, *, after: int = 0) -> AsyncIterator[Json]:
        """Events, and text as `{"type": "delta", "path", "text", "offset"}`, until the run ends."""
        ...

    async def show(self, run: str) -> Json: ...

    async def page(self, limit: int, **wanted: str) -> Json:
        """The last runs; `wanted` are `before`, `workflow`, `status`."""
        ...

    async def cancel(self, run: str) -> Json: ...

    async def answer(self, run: str, path: str, value: Any) -> Json: ...

    async def note(self, run: str, text: str) -> None: ...

    async def fork(self, run: str, fork: Fork) -> str: ...

    async def prune(self, days: float, *, keep: int, look: bool) -> list[str]: ...

    async def export(self, run: str) -> str: ...

    async def pin(self, run: str, path: str) -> str: ...

    async def take_in(self, lines: str) -> list[str]: ...

    async def compare(self, run: str, other: str) -> Json: ...

    async def changes(self, run: str, path: str | None) -> str: ...


class OwnDesk:
    """The engine in this process, on the ledger of the state directory."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    async def plan(self, document: Document) -> Json:
        return self._runs.planned(document).model_dump(mode="json")

    async def foresee(self, document: Document, look: Json) -> Json:
        found = self._runs.foreseen(document, look["inputs"], run=look["run"], at=look["at"])
        return found.model_dump(mode="json")

    async def explain(self, document: Document, path: str) -> list[Json]:
        return [one.model_dump(mode="json") for one in self._runs.explained(document, path)]

    async def flat(self, document: Document, form: FlatForm) -> str:
        return self._runs.flat(document, form)

    async def start(self, start: Start) -> str:
        return await self._runs.start(
            start.document,
            start.inputs,
            conversation=start.conversation,
            caller="cli",
            answers=start.answers,
            interactive=start.interactive,
        )

    async def follow(self, run: str, *, after: int = 0) -> AsyncIterator[Json]:
        async for item in self._runs.engine.listen(run, after=after):
            yield item.model_dump(mode="json")

    async def show(self, run: str) -> Json:
        return self._runs.view(run).model_dump(mode="json")

    async def page(self, limit: int, **wanted: str) -> Json:
        found: Any = wanted
        return self._runs.page(limit=limit, **found).model_dump(mode="json")

    async def cancel(self, run: str) -> Json:
        return (await self._runs.cancel(run)).model_dump(mode="json")

    async def answer(self, run: str, path: str, value: Any) -> Json:
        return (await self._runs.answer(run, path, value, by="cli")).model_dump(mode="json")

    async def note(self, run: str, text: str) -> None:
        await self._runs.note(run, text, by="cli")

    async def fork(self, run: str, fork: Fork) -> str:
        return await self._runs.fork(run, fork, caller="cli")

    async def prune(self, days: float, *, keep: int, look: bool) -> list[str]:
        return await self._runs.prune(days, keep=keep, look=look)

    async def export(self, run: str) -> str:
        return self._runs.export(run)

    async def pin(self, run: str, path: str) -> str:
        return pinned(self._runs.engine, run, path)

    async def take_in(self, lines: str) -> list[str]:
        return await self._runs.take_in(lines)

    async def compare(self, run: str, other: str) -> Json:
        return self._runs.compare(run, other).model_dump(mode="json")

    async def changes(self, run: str, path: str | None) -> str:
        return await changes(self._runs.engine, run, path)


@asynccontextmanager
async def open_desk(state_dir: Path | None) -> AsyncIterator[Desk]:
    """The running instance of the state directory; without one, its ledger under its lease."""
    async with opened(state_dir) as found:
        yield found if isinstance(found, RemoteDesk) else OwnDesk(found.runs)


@asynccontextmanager
async def opened(state_dir: Path | None) -> AsyncIterator[RemoteDesk | Assembly]:
    """The same, whatever is to be done there."""
    state = StateDir(state_dir or HearthSettings.load().state_dir)
    instance = read_instance(state)
    if instance is not None:
        async with RemoteDesk(instance.web, read_key(instance.key_file)) as remote:
            yield remote
        return
    ensure_state_dir(state)
    configure_logs("hearth", level="error")
    settings = Settings.load().model_copy(update={"state_dir": state.root})
    async with open_engine(settings) as assembly:
        yield assembly
