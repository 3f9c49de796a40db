"""`/api/code/memory`: the files of a project over all of its runs."""

from pathlib import Path
from typing import Annotated

from fastapi import Depends, Query, Response
from pydantic import BaseModel

from pipecatapp.api.access import known_caller
from pipecatapp.api.owners import Behalf
from pipecatapp.api.parts import WithParts
from pipecatapp.api.routing import api_router
from pipecatapp.application.callers import owner_of
from pipecatapp.application.code_memory import ProjectFile, ProjectFiles

router = api_router("/api/code/memory", dependencies=[Depends(known_caller)])

Source = Annotated[str, Query(max_length=4000, description="The folder of the repository.")]


class Cleared(BaseModel):
    """`runs`: how many runs had files."""

    runs: int


@router.get("")
async def find_files(
    source: Source,
    parts: WithParts,
    name: Annotated[str, Query(max_length=1000)] = "",
    text: Annotated[str, Query(max_length=1000)] = "",
    limit: Annotated[int, Query(ge=1, le=5000)] = 500,
    behalf: Behalf = "",
) -> ProjectFiles:
    """The files whose path has `name`, and the lines that have `text`."""
    return await parts.code_memory.find(Path(source), name, text, limit, owner=owner_of(behalf))


@router.get("/file")
async def show_file(
    source: Source,
    path: Annotated[str, Query(max_length=4000)],
    parts: WithParts,
    behalf: Behalf = "",
) -> ProjectFile:
    """The latest content of a file, and its versions."""
    return await parts.code_memory.show(Path(source), path, owner=owner_of(behalf))


@router.get("/export")
async def export_files(source: Source, parts: WithParts, behalf: Behalf = "") -> Response:
    """All files with their versions, as JSON."""
    text = await parts.code_memory.export(Path(source), owner=owner_of(behalf))
    return Response(text, media_type="application/json")


@router.delete("")
async def clear_files(source: Source, parts: WithParts, behalf: Behalf = "") -> Cleared:
    """Remove the files of all ended runs of a project. The runs stay in the list."""
    return Cleared(runs=await parts.code_memory.clear(Path(source), owner=owner_of(behalf)))
