"""List a folder of the workspace."""

import asyncio
import os
import stat
from itertools import islice
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from pipecatapp.sandbox.bubblewrap import WORK
from pipecatapp.sandbox.tree import FOLDER, Entry, TooLarge, parent_of, walk
from pipecatapp.tools.files.place import inside, workspace
from pipecatapp.workflow import Context, ToolFailed, tool

DEPTH = 100
"""Folders inside each other; the sandbox lets no program go deeper."""
HIDDEN = frozenset({".git"})


class Item(BaseModel):
    """Something in the folder."""

    path: str
    kind: Literal["file", "folder", "link", "other"]
    size: int


class Listing(BaseModel):
    """A folder, parents before what is in them."""

    items: list[Item] = Field(description="Path in the workspace, kind, and bytes of a file.")
    cut: bool = Field(description="Whether there is more than was asked for.")


@tool("file.list", effect="read", version=1, workspace=True)
async def listing(
    ctx: Context,
    path: Annotated[str, Field(description="A folder in the workspace; `.` is all of it.")] = ".",
    limit: Annotated[int, Field(description="Items at most.", ge=1, le=10000)] = 1000,
) -> Listing:
    """List what is in a folder of the workspace, at any depth."""
    root = workspace(ctx)
    place = "" if Path(path) in (Path(), Path(WORK)) else inside(root, path)
    try:
        found = await asyncio.to_thread(_found, root, place, limit + 1)
    except (OSError, TooLarge) as error:
        said = error.strerror if isinstance(error, OSError) else error
        raise ToolFailed(f"{path!r} cannot be listed: {said}.") from error
    items = [
        Item(path=str(Path(place, one.path)), kind=_kind(one), size=_size(one)) for one in found
    ]
    return Listing(items=items[:limit], cut=len(items) > limit)


def _found(root: Path, place: str, most: int) -> list[Entry]:
    if not place:
        return list(islice(walk(root, depth=DEPTH, skip=HIDDEN), most))
    with parent_of(root, place) as (folder, name):
        handle = os.open(name, FOLDER, dir_fd=folder)
    try:
        inner = Path(f"/proc/self/fd/{handle}")
        return list(islice(walk(inner, depth=DEPTH, skip=HIDDEN), most))
    finally:
        os.close(handle)


def _kind(entry: Entry) -> Literal["file", "folder", "link", "other"]:
    if entry.is_file:
        return "file"
    if entry.is_folder:
        return "folder"
    return "link" if stat.S_ISLNK(entry.mode) else "other"


def _size(entry: Entry) -> int:
    return entry.state[1] if entry.is_file else 0
