"""The engine with the shipped tools, as pipecatapp puts it together, without its web server."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pipecatapp.sandbox import Sandbox
from pipecatapp.tools import TOOLS
from pipecatapp.tools.code.elsewhere.places import Places
from pipecatapp.tools.code.packages import Packages
from pipecatapp.workflow import Engine, Ledger, Project, Workspaces, load_document
from pipecatapp.workspace import GitWorkspaces

OpenPlaces = Callable[[AsyncExitStack], Awaitable[Places]]
Opened = Callable[..., AbstractAsyncContextManager[Engine]]


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    """`async with opened(document, …) as engine`: on one ledger, time after time."""

    @asynccontextmanager
    async def open_engine(*documents: str, **named: Any) -> AsyncIterator[Engine]:
        async with engine_in(tmp_path, *documents, **named) as engine:
            yield engine

    return open_engine


@asynccontextmanager
async def engine_in(
    folder: Path,
    *documents: str,
    places: OpenPlaces | None = None,
    services: Mapping[Any, object] | None = None,
    projects: Iterable[Project] = (),
) -> AsyncIterator[Engine]:
    """An engine on the ledger, the workspaces and the packages of a folder."""
    sandbox, ledger = Sandbox(), Ledger(folder / "ledger.db")
    given: dict[Any, object] = {
        Sandbox: sandbox,
        Packages: Packages(folder / "packages", sandbox),
        Workspaces: GitWorkspaces(folder / "workspaces"),
    }
    async with AsyncExitStack() as stack:
        stack.callback(ledger.close)
        given[Places] = await places(stack) if places else Places()
        async with Engine(
            ledger,
            tools=TOOLS.values(),
            workflows=[load_document(text, file="test.yaml") for text in documents],
            services={**given, **(services or {})},
            projects=projects,
            roles={"default": "auto"},
        ) as engine:
            yield engine
