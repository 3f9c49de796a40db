"""The knowledge of this home: sources, their indexing, and the search in them."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, Field

from pipecatapp.tools.knowledge.embedding import EmbeddingModel
from pipecatapp.tools.knowledge.indexing import Indexer, State
from pipecatapp.tools.knowledge.ranking import Ranking, Search, UnknownSource
from pipecatapp.tools.knowledge.reading import Reader
from pipecatapp.tools.knowledge.store import (
    EVERYONE,
    Counts,
    FileFailure,
    KnowledgeStore,
    SourceRow,
    StoredPassage,
)

NAME: Final = re.compile(r"^[a-z0-9][a-z0-9-]{0,62}$")
FAILURES: Final = 100
"""Files that cannot be indexed, of a list."""
REACH: Final = 1
"""Passages before and behind one that is shown."""


class SourceRefused(ValueError):
    """A source cannot be added or changed like this."""


class SourceExists(ValueError):
    """Choose another name, or remove the source of this name first."""


class UnknownPassage(LookupError):
    """There is no such passage any more, or the key may not read it. Search again."""


class Source(BaseModel):
    """A source with the state of its index."""

    name: str
    paths: list[str] = Field(description="Folders and files on the machine of the agent.")
    readers: list[str] = Field(
        description="Names of keys that may read it; `*` is every key. The built-in key may always."
    )
    created: str = Field(description="ISO 8601, UTC.")
    checked: str = Field(description="When changes were last indexed; empty before.")
    state: State = Field(description="Work of the indexer on it.")
    done: int = Field(description="Changed files that are read, while it is read.")
    total: int = Field(description="Changed files, while it is read.")
    counts: Counts
    error: str = Field(description="Why its files could not be compared; empty if they could.")
    waiting_for: str = Field(
        description="Why passages are found only by their words; empty if by their meaning, too."
    )


class SourceDetail(Source):
    """A source with its files that cannot be indexed, at most 100 of them."""

    failures: list[FileFailure]


class Knowledge:
    """The sources in one index file. `reader` is the name of a key, empty for the built-in key."""

    def __init__(self, path: Path, model: EmbeddingModel, services: Mapping[Any, object]) -> None:
        self._store = KnowledgeStore(path)
        self.indexer = Indexer(self._store, model, Reader(services))
        self._search = Search(self._store, model)

    async def close(self) -> None:
        """Stop indexing, and close the index."""
        await self.indexer.close()
        await asyncio.to_thread(self._store.close)

    async def add(self, name: str, paths: Sequence[str], readers: Sequence[str]) -> Source:
        """Add a source and begin to index it. Raises `SourceRefused` and `SourceExists`."""
        if not NAME.match(name):
            raise SourceRefused(
                f"{name!r} is not a valid name: use lower case letters, digits and hyphens."
            )
        places = await asyncio.to_thread(_places, paths)
        if not await asyncio.to_thread(self._store.add, name, places, _keys(readers)):
            raise SourceExists(f"There is a source {name!r} already. Choose another name.")
        row = await self._row(name)
        self.indexer.request([row.id])
        return await self._shown(row)

    async def sources(self, reader: str = "") -> list[Source]:
        """Return the sources that a key may read, by name."""
        return [await self._shown(one) for one in await self._search.readable(reader)]

    async def show(self, name: str, reader: str = "") -> SourceDetail:
        """Return one source. Raises `UnknownSource`."""
        row = await self._row(name, reader)
        failures = await asyncio.to_thread(self._store.failures, row.id, FAILURES)
        shown = await self._shown(row)
        return SourceDetail(**shown.model_dump(), failures=failures)

    async def update(self, name: str, reader: str = "") -> Source:
        """Compare a source with its documents now. Raises `UnknownSource`."""
        row = await self._row(name, reader)
        self.indexer.request([row.id])
        return await self._shown(row)

    async def let_read(self, name: str, readers: Sequence[str]) -> Source:
        """Replace the readers of a source. Raises `UnknownSource`."""
        row = await self._row(name)
        await asyncio.to_thread(self._store.change_readers, row.id, _keys(readers))
        return await self._shown(await self._row(name))

    async def remove(self, name: str) -> None:
        """Remove a source and everything that the index has of it. Raises `UnknownSource`."""
        row = await self._row(name)
        self.indexer.removed(row.id)
        self._search.forget(row.id)
        await asyncio.to_thread(self._store.remove, row.id)

    async def find(
        self,
        query: str,
        *,
        reader: str,
        names: Sequence[str] = (),
        limit: int,
        meaning: bool = True,
    ) -> Ranking:
        """Return the passages that fit best. Raises `UnknownSource`."""
        return await self._search.find(
            query, reader=reader, names=names, limit=limit, meaning=meaning
        )

    async def around(self, id: int, reader: str = "") -> list[StoredPassage]:
        """Return a passage with its neighbours in the document. Raises `UnknownPassage`."""
        ids = [one.id for one in await self._search.readable(reader)]
        found = await asyncio.to_thread(self._store.around, id, ids, REACH) if ids else []
        if not found:
            raise UnknownPassage("The passage was changed or removed. Search again.")
        return found

    async def _row(self, name: str, reader: str = "") -> SourceRow:
        [row] = await self._search.readable(reader, [name])
        return row

    async def _shown(self, row: SourceRow) -> Source:
        progress = self.indexer.progress(row.id)
        counts = await asyncio.to_thread(self._store.counts, row.id)
        missing = counts.embedded < counts.passages
        return Source(
            **row.model_dump(exclude={"id", "stamp"}),
            state=progress.state,
            done=progress.done,
            total=progress.total,
            counts=counts,
            waiting_for=self.indexer.waiting_for if missing else "",
        )


def _places(paths: Sequence[str]) -> list[str]:
    """Return the absolute paths. Raises `SourceRefused` for one that cannot be a source."""
    places: list[str] = []
    for given in paths:
        path = Path(given).expanduser()
        if "\0" in given or not path.is_absolute():
            raise SourceRefused(f"{given!r} is not an absolute path.")
        if not path.is_dir() and not path.is_file():
            raise SourceRefused(f"{given} does not exist on this machine: check the path.")
        places.append(str(path.resolve()))
    names = [Path(one).name for one in places]
    if twice := next((one for one in names if names.count(one) > 1), ""):
        raise SourceRefused(f"Two paths end in {twice!r}. Add them as two sources.")
    return places


def _keys(readers: Sequence[str]) -> list[str]:
    """Return the names of readers; `all` means every key."""
    return sorted({EVERYONE if one in ("all", EVERYONE) else one for one in readers})


def citation(passage: StoredPassage) -> str:
    """Return a short name of a passage: `manuals/router.md#Reset`, `#page=3` or `#L4-L9`."""
    if passage.page:
        anchor = f"page={passage.page}"
    elif passage.heading:
        anchor = passage.heading.rpartition(" > ")[2]
    else:
        anchor = f"L{passage.line}-L{passage.last}"
    return f"{passage.source}/{passage.path}#{anchor}"


__all__ = ["Knowledge", "Source", "SourceDetail", "SourceExists", "SourceRefused",
           "UnknownPassage", "UnknownSource", "citation"]  # fmt: skip
