"""Where these commands do their work: in the running instance, or in the state directory."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

from pipecatapp.cli.desk import opened
from pipecatapp.cli.failure import CommandFailed
from pipecatapp.cli.remote import RemoteDesk
from pipecatapp.runs import Document
from pipecatapp.schedules.starting import Starter
from pipecatapp.schedules.store import NewSchedule
from pipecatapp.shelf import Variant
from pipecatapp.wiring import Assembly

Json = dict[str, Any]


class Library(Protocol):
    """The same answers, JSON as the API gives it, wherever they come from."""

    async def inputs(self, workflow: str) -> Json:
        """The JSON Schema of what a workflow takes."""
        ...

    async def schedules(self) -> list[Json]: ...

    async def put_schedule(self, id: str, new: NewSchedule) -> Json: ...

    async def remove_schedule(self, id: str) -> None: ...

    async def pause_schedule(self, id: str, *, paused: bool) -> Json: ...

    async def run_schedule(self, id: str) -> str:
        """Start it now; gives the run, which has ended where no instance runs it."""
        ...

    async def import_file(
        self, text: str, file: str, name: str, models: dict[str, str]
    ) -> Json: ...

    async def prompts(self, words: str, tags: list[str]) -> list[Json]: ...

    async def prompt(self, id: str) -> Json: ...

    async def keep_prompt(self, id: str, text: str) -> Json: ...

    async def remove_prompt(self, id: str) -> None: ...

    async def tasks(self, words: str, tags: list[str], limit: int) -> list[Json]: ...

    async def task(self, id: str, version: int | None) -> Json: ...

    async def keep_task(self, text: str, file: str) -> Json: ...

    async def remove_task(self, id: str) -> None: ...

    async def variant(self, id: str, variant: Variant) -> Json: ...

    async def projects(self) -> list[Json]: ...

    async def project(self, id: str) -> Json: ...


class OwnLibrary:
    """The state directory itself."""

    def __init__(self, assembly: Assembly) -> None:
        self._runs, self._schedules = assembly.runs, assembly.schedules
        self._shelf = assembly.shelf

    async def inputs(self, workflow: str) -> Json:
        return self._runs.known(workflow).input_schema()

    async def schedules(self) -> list[Json]:
        return [one.model_dump(mode="json") for one in self._schedules.all()]

    async def put_schedule(self, id: str, new: NewSchedule) -> Json:
        self._runs.check_inputs(new.workflow, new.inputs)
        return (await self._schedules.put(id, new)).model_dump(mode="json")

    async def remove_schedule(self, id: str) -> None:
        await self._schedules.remove(id)

    async def pause_schedule(self, id: str, *, paused: bool) -> Json:
        return (await self._schedules.pause(id, paused=paused)).model_dump(mode="json")

    async def run_schedule(self, id: str) -> str:
        run = await Starter(self._schedules, self._start).start(self._schedules.get(id))
        if run is None:
            raise CommandFailed(f"{id} cannot be started: {self._schedules.get(id).error}")
        await self._runs.engine.wait(run)
        return run

    async def import_file(self, text: str, file: str, name: str, models: dict[str, str]) -> Json:
        found = self._shelf.import_file(text, file=file, name=name, models=models)
        return found.model_dump(mode="json")

    async def prompts(self, words: str, tags: list[str]) -> list[Json]:
        return [one.model_dump(mode="json") for one in self._shelf.prompts(words, tags)]

    async def prompt(self, id: str) -> Json:
        return self._shelf.prompt(id).model_dump(mode="json")

    async def keep_prompt(self, id: str, text: str) -> Json:
        return self._shelf.keep_prompt(id, text).model_dump(mode="json")

    async def remove_prompt(self, id: str) -> None:
        self._shelf.remove_prompt(id)

    async def tasks(self, words: str, tags: list[str], limit: int) -> list[Json]:
        return [one.model_dump(mode="json") for one in self._shelf.tasks(words, tags, limit)]

    async def task(self, id: str, version: int | None) -> Json:
        return self._shelf.task(id, version).model_dump(mode="json")

    async def keep_task(self, text: str, file: str) -> Json:
        return (await self._shelf.keep_task(text, file=file)).model_dump(mode="json")

    async def remove_task(self, id: str) -> None:
        await self._shelf.remove_task(id)

    async def variant(self, id: str, variant: Variant) -> Json:
        return (await self._shelf.variant(id, variant)).model_dump(mode="json")

    async def projects(self) -> list[Json]:
        return [one.model_dump(mode="json") for one in self._shelf.projects()]

    async def project(self, id: str) -> Json:
        return self._shelf.project(id).model_dump(mode="json")

    async def _start(self, workflow: str, inputs: Any, **more: Any) -> str:
        return await self._runs.start(Document(workflow=workflow), dict(inputs), **more)


class RemoteLibrary:
    """The running instance, over HTTP."""

    def __init__(self, remote: RemoteDesk) -> None:
        self._ask = remote.ask

    async def inputs(self, workflow: str) -> Json:
        schema: Json = (await self._ask("GET", f"/api/workflows/{workflow}"))["inputs"]
        return schema

    async def schedules(self) -> list[Json]:
        return list((await self._ask("GET", "/api/schedules"))["schedules"])

    async def put_schedule(self, id: str, new: NewSchedule) -> Json:
        body = new.model_dump(exclude_none=True)
        return await self._ask("PUT", f"/api/schedules/{id}", body)

    async def remove_schedule(self, id: str) -> None:
        await self._ask("DELETE", f"/api/schedules/{id}")

    async def pause_schedule(self, id: str, *, paused: bool) -> Json:
        return await self._ask("POST", f"/api/schedules/{id}/{'pause' if paused else 'resume'}")

    async def run_schedule(self, id: str) -> str:
        return str((await self._ask("POST", f"/api/schedules/{id}/run"))["run"])

    async def import_file(self, text: str, file: str, name: str, models: dict[str, str]) -> Json:
        body = {"text": text, "file": file, "name": name, "models": models}
        return await self._ask("POST", "/api/import", body)

    async def prompts(self, words: str, tags: list[str]) -> list[Json]:
        asked = {"q": words, "tag": tags}
        return list((await self._ask("GET", "/api/prompts", params=asked))["prompts"])

    async def prompt(self, id: str) -> Json:
        return await self._ask("GET", f"/api/prompts/{id}")

    async def keep_prompt(self, id: str, text: str) -> Json:
        return await self._ask("PUT", f"/api/prompts/{id}", {"document": text})

    async def remove_prompt(self, id: str) -> None:
        await self._ask("DELETE", f"/api/prompts/{id}")

    async def tasks(self, words: str, tags: list[str], limit: int) -> list[Json]:
        asked = {"q": words, "tag": tags, "limit": limit}
        return list((await self._ask("GET", "/api/tasks", params=asked))["tasks"])

    async def task(self, id: str, version: int | None) -> Json:
        asked = {} if version is None else {"version": version}
        return await self._ask("GET", f"/api/tasks/{id}", params=asked)

    async def keep_task(self, text: str, file: str) -> Json:
        return await self._ask("POST", "/api/tasks", {"document": text, "file": file})

    async def remove_task(self, id: str) -> None:
        await self._ask("DELETE", f"/api/tasks/{id}")

    async def variant(self, id: str, variant: Variant) -> Json:
        return await self._ask("POST", f"/api/tasks/{id}/variants", variant.model_dump())

    async def projects(self) -> list[Json]:
        return list((await self._ask("GET", "/api/projects"))["projects"])

    async def project(self, id: str) -> Json:
        return await self._ask("GET", f"/api/projects/{id}")


@asynccontextmanager
async def open_library(state_dir: Path | None) -> AsyncIterator[Library]:
    """As `open_desk`: the running instance, else the state directory under its lease."""
    async with opened(state_dir) as found:
        yield RemoteLibrary(found) if isinstance(found, RemoteDesk) else OwnLibrary(found)
