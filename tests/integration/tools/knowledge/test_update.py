"""The tool `rag.update` on real documents."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.tools.knowledge.knowledge import Knowledge
from pipecatapp.workflow import ToolFailed
from tests.integration.agent.knowledge.conftest import write
from tests.integration.tools.knowledge.conftest import context, opened


@pytest.fixture
async def pets(embedder: str, tmp_path: Path) -> AsyncIterator[Knowledge]:
    """One source, `pets`, with one document."""
    folder = write(tmp_path / "pets", {"dog.md": "# Dog\n\nThe dog goes out at six.\n"})
    async with opened(tmp_path / "knowledge.db", embedder) as knowledge:
        await knowledge.add("pets", [str(folder)], [])
        await knowledge.indexer.settled()
        yield knowledge


async def test_changed_documents_are_found_after_an_update(pets: Knowledge, tmp_path: Path) -> None:
    """A workflow that has written a document can search it in its next step."""
    write(tmp_path / "pets", {"cat.md": "# Cat\n\nThe cat is fed at seven.\n"})
    done = await TOOLS["rag.update"].check(context(pets), {"source": "pets"})
    found = await TOOLS["rag.search"].check(context(pets), {"query": "When is the cat fed?"})

    assert done == {"source": "pets", "files": 2, "failed": 0, "passages": 2, "error": ""}
    assert found["passages"][0]["citation"] == "pets/cat.md#Cat"


async def test_update_names_a_folder_that_is_gone(pets: Knowledge, tmp_path: Path) -> None:
    """A disk that is not mounted must not empty the index."""
    (tmp_path / "pets").rename(tmp_path / "away")
    done = await TOOLS["rag.update"].check(context(pets), {"source": "pets"})

    assert "does not exist" in done["error"]
    assert done["passages"] == 1


async def test_unknown_source_cannot_be_updated(knowledge: Knowledge) -> None:
    """The error names the sources that there are."""
    with pytest.raises(ToolFailed, match="Known sources: manuals, rules"):
        await TOOLS["rag.update"].check(context(knowledge), {"source": "nothing"})
