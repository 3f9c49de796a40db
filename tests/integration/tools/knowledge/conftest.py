"""Indexed documents without an agent service, with the real expert for embeddings."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from pipecatapp.sandbox import Sandbox
from pipecatapp.tools.cluster.directory import Directory
from pipecatapp.tools.cluster.fixed import FixedPlaces
from pipecatapp.tools.knowledge.embedding import EmbeddingModel
from pipecatapp.tools.knowledge.knowledge import Knowledge
from pipecatapp.workflow import Context
from tests.conftest import served
from tests.integration.agent.knowledge.conftest import (
    DOCUMENTS,
    KEY,
    HomeGateway,
    embedder,
    write,
)

__all__ = ["embedder"]


@asynccontextmanager
async def opened(index: Path, embedder: str) -> AsyncIterator[Knowledge]:
    """Open the knowledge in an index file, with a gateway that has the expert."""
    with served(HomeGateway(embedder)) as url:
        async with httpx2.AsyncClient(timeout=60, trust_env=False) as http:
            places = FixedPlaces(dict, gateway=f"{url}/v1", http=http)
            model = EmbeddingModel(Directory(places, key=KEY, http=http))
            knowledge = Knowledge(index, model, {Sandbox: Sandbox()})
            yield knowledge
            await knowledge.close()


@pytest.fixture(scope="session")
def index(embedder: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index with the sources `manuals`, of the built-in key, and `rules`, of all keys."""
    folder = tmp_path_factory.mktemp("documents")
    manuals = write(folder / "manuals", DOCUMENTS)
    rules = write(folder / "rules", {"a.md": "# Rules\n\nShoes stay at the door.\n"})

    async def build() -> None:
        async with opened(folder / "knowledge.db", embedder) as knowledge:
            await knowledge.add("manuals", [str(manuals)], [])
            await knowledge.add("rules", [str(rules)], ["all"])
            await knowledge.indexer.settled()

    asyncio.run(build())
    return folder / "knowledge.db"


@pytest.fixture
async def knowledge(index: Path, embedder: str) -> AsyncIterator[Knowledge]:
    """The indexed documents; a test only reads them."""
    async with opened(index, embedder) as knowledge:
        yield knowledge


def context(knowledge: Knowledge) -> Context:
    """The context of a call for the built-in key."""
    return Context(services={Knowledge: knowledge})
