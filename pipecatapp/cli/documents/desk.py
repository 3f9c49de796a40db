"""Where these commands do their work: in the running instance, or in the state directory."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

from pydantic import TypeAdapter

from hearth.service.state import StateDir
from hearth.settings import Settings as HearthSettings
from pipecatapp.catalogue import catalogue, page, tool_cards
from pipecatapp.cli.desk import opened
from pipecatapp.cli.remote import RemoteDesk
from pipecatapp.library.editing import Operation
from pipecatapp.runs import Document, Runs
from pipecatapp.workbench import Workbench

Json = dict[str, Any]
OPERATIONS: TypeAdapter[list[Operation]] = TypeAdapter(list[Operation])


class Documents(Protocol):
    """The same answers, JSON as the API gives it, wherever they come from."""

    async def workflows(self) -> list[Json]: ...

    async def workflow(self, name: str) -> Json: ...

    async def text(self, name: str) -> Json: ...

    async def edit(self, name: str, edits: Sequence[Json], *, seen: str, look: bool) -> Json: ...

    async def put(self, name: str, text: str) -> Json: ...

    async def remove(self, name: str) -> None: ...

    async def compare(self, before: Document, after: Document) -> Json: ...

    async def layers(self) -> list[Json]: ...

    async def layer(self, name: str) -> Json: ...

    async def put_layer(self, name: str, text: str) -> Json: ...

    async def remove_layer(self, name: str) -> None: ...

    async def tools(self) -> list[Json]: ...


class OwnDocuments:
    """The state directory itself."""

    def __init__(self, runs: Runs, root: Path) -> None:
        self._runs, self._bench = runs, Workbench(runs, root)

    async def workflows(self) -> list[Json]:
        return [one.model_dump(mode="json") for one in catalogue(self._runs.engine)]

    async def workflow(self, name: str) -> Json:
        found = page(self._runs.engine, self._runs.known(name))
        return found.model_dump(mode="json", by_alias=True)

    async def text(self, name: str) -> Json:
        return self._bench.text(name).model_dump(mode="json")

    async def edit(self, name: str, edits: Sequence[Json], *, seen: str, look: bool) -> Json:
        operations = OPERATIONS.validate_python(edits)
        told = await self._bench.edit(name, operations, seen=seen, look=look)
        return told.model_dump(mode="json")

    async def put(self, name: str, text: str) -> Json:
        return self._bench.put(name, text, seen="*").model_dump(mode="json")

    async def remove(self, name: str) -> None:
        self._bench.remove(name, seen="*")

    async def compare(self, before: Document, after: Document) -> Json:
        return self._bench.compare(before, after).model_dump(mode="json")

    async def layers(self) -> list[Json]:
        return [one.model_dump(mode="json") for one in self._bench.layers()]

    async def layer(self, name: str) -> Json:
        return self._bench.layer(name).model_dump(mode="json")

    async def put_layer(self, name: str, text: str) -> Json:
        return self._bench.put_layer(name, text, seen="*").model_dump(mode="json")

    async def remove_layer(self, name: str) -> None:
        self._bench.remove_layer(name, seen="*")

    async def tools(self) -> list[Json]:
        return [one.model_dump(mode="json") for one in tool_cards(self._runs)]


class RemoteDocuments:
    """The running instance, over HTTP."""

    def __init__(self, remote: RemoteDesk) -> None:
        self._ask = remote.ask

    async def workflows(self) -> list[Json]:
        return list((await self._ask("GET", "/api/workflows"))["workflows"])

    async def workflow(self, name: str) -> Json:
        return await self._ask("GET", f"/api/workflows/{name}")

    async def text(self, name: str) -> Json:
        return await self._ask("GET", f"/api/workflows/{name}/document")

    async def edit(self, name: str, edits: Sequence[Json], *, seen: str, look: bool) -> Json:
        body = {"operations": list(edits), "look": look}
        return await self._ask("PATCH", f"/api/workflows/{name}", body, headers=_seen(seen))

    async def put(self, name: str, text: str) -> Json:
        body = {"document": text}
        return await self._ask("PUT", f"/api/workflows/{name}/document", body, headers=_seen("*"))

    async def remove(self, name: str) -> None:
        await self._ask("DELETE", f"/api/workflows/{name}/document", headers=_seen("*"))

    async def compare(self, before: Document, after: Document) -> Json:
        body = {"before": before.model_dump(), "after": after.model_dump()}
        return await self._ask("POST", "/api/workflows/diff", body)

    async def layers(self) -> list[Json]:
        return list((await self._ask("GET", "/api/layers"))["layers"])

    async def layer(self, name: str) -> Json:
        return await self._ask("GET", f"/api/layers/{name}")

    async def put_layer(self, name: str, text: str) -> Json:
        return await self._ask("PUT", f"/api/layers/{name}", {"document": text}, headers=_seen("*"))

    async def remove_layer(self, name: str) -> None:
        await self._ask("DELETE", f"/api/layers/{name}", headers=_seen("*"))

    async def tools(self) -> list[Json]:
        return list((await self._ask("GET", "/api/tools"))["tools"])


def _seen(etag: str) -> dict[str, str]:
    return {"if-match": etag}


@asynccontextmanager
async def open_documents(state_dir: Path | None) -> AsyncIterator[Documents]:
    """As `open_desk`: the running instance, else the state directory under its lease."""
    root = StateDir(state_dir or HearthSettings.load().state_dir).root
    async with opened(state_dir) as found:
        yield (
            RemoteDocuments(found)
            if isinstance(found, RemoteDesk)
            else OwnDocuments(found.runs, root)
        )
