"""`/api/knowledge`: the documents of this home, their index, and the search in them."""

from typing import Annotated

from fastapi import Depends, Query
from pydantic import BaseModel, ConfigDict, Field

from pipecatapp.api.access import known_caller
from pipecatapp.api.owners import Behalf, administrator
from pipecatapp.api.parts import WithParts
from pipecatapp.api.routing import api_router
from pipecatapp.application.callers import owner_of
from pipecatapp.application.knowledge import (
    PassageInDocument,
    SearchResult,
    Source,
    SourceDetail,
    result_of,
    shown,
)

router = api_router("/api/knowledge", dependencies=[Depends(known_caller)])
WHOLE_MACHINE = [Depends(administrator)]
"""A source may be any folder of the machine, so only the built-in key adds and removes sources."""

Readers = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=100)]], Field(max_length=500)
]


class SourceList(BaseModel):
    """The sources that the key may read."""

    sources: list[Source]


class NewSource(BaseModel):
    """A source to add. `readers`: names of keys, `all` for every key; empty: the built-in key."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(min_length=1, max_length=63)]
    paths: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=4000)]],
        Field(min_length=1, max_length=1000),
    ]
    readers: Readers = []


class NewReaders(BaseModel):
    """The readers of a source from now on."""

    model_config = ConfigDict(extra="forbid")

    readers: Readers


@router.get("")
async def list_sources(parts: WithParts, behalf: Behalf = "") -> SourceList:
    """The sources with the state of their index."""
    return SourceList(sources=await parts.knowledge.sources(owner_of(behalf)))


@router.post("", status_code=201, dependencies=WHOLE_MACHINE)
async def add_source(source: NewSource, parts: WithParts) -> Source:
    """Add folders or files of the agent's machine as a source; indexing begins at once."""
    return await parts.knowledge.add(source.name, source.paths, source.readers)


@router.get("/search")
async def search_sources(
    query: Annotated[str, Query(min_length=1, max_length=2000)],
    parts: WithParts,
    source: Annotated[list[str], Query(max_length=50)] = [],  # noqa: B006
    limit: Annotated[int, Query(ge=1, le=50)] = 10,
    behalf: Behalf = "",
) -> SearchResult:
    """The passages that fit a question or words, the best first."""
    ranking = await parts.knowledge.find(query, reader=owner_of(behalf), names=source, limit=limit)
    return result_of(ranking)


@router.get("/passages/{passage}")
async def show_passage(passage: int, parts: WithParts, behalf: Behalf = "") -> PassageInDocument:
    """A passage with the text before and behind it."""
    return shown(passage, await parts.knowledge.around(passage, owner_of(behalf)))


@router.get("/{source}")
async def show_source(source: str, parts: WithParts, behalf: Behalf = "") -> SourceDetail:
    """A source with the files that cannot be indexed."""
    return await parts.knowledge.show(source, owner_of(behalf))


@router.post("/{source}/update", status_code=202)
async def update_source(source: str, parts: WithParts, behalf: Behalf = "") -> Source:
    """Compare a source with its documents now."""
    return await parts.knowledge.update(source, owner_of(behalf))


@router.put("/{source}/readers", dependencies=WHOLE_MACHINE)
async def change_readers(source: str, readers: NewReaders, parts: WithParts) -> Source:
    """Replace the keys that may read a source."""
    return await parts.knowledge.let_read(source, readers.readers)


@router.delete("/{source}", status_code=204, dependencies=WHOLE_MACHINE)
async def remove_source(source: str, parts: WithParts) -> None:
    """Remove a source and its content from the index; the documents stay."""
    await parts.knowledge.remove(source)
