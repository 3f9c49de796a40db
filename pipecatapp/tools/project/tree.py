"""The tool that shows the files of a workspace as a tree."""

import asyncio
import os
import re
from collections.abc import Container
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Annotated, Final

from pydantic import BaseModel, Field

from hearth.service.ephemeral import scratch
from pipecatapp.sandbox.leftovers import guard
from pipecatapp.sandbox.tree import Entry, TooLarge, open_plain, remove, walk
from pipecatapp.tools.files.place import workspace
from pipecatapp.tools.project.facts import DEPTH, SKIPPED
from pipecatapp.workflow import Context, ToolFailed, tool
from pipecatapp.workspace.git import make

IGNORE_FILE: Final = ".gitignore"
LISTED: Final = 20_000
"""Maximum number of entries that are read."""
SAMPLE: Final = 8000
"""Bytes of a file in which a NUL means that it is binary, as in git."""
INDENT: Final = "  "
MORE: Final = " …"
"""Follows a folder of which the tree does not show everything."""


class ProjectTree(BaseModel):
    """The text files of a project as a tree."""

    text: str = Field(
        description="A line for each folder (`name/`) and file, indented by depth. `…` follows a"
        " folder of which some entries are left out for the limits."
    )
    shown: int = Field(description="Lines of the text.")
    cut: bool = Field(description="Whether entries are left out for the limits.")


class _Hidden(Container[str]):
    """Names that are passed over; a `.gitignore` is hidden, but has to be read."""

    def __contains__(self, name: object) -> bool:
        hidden = isinstance(name, str) and name.startswith(".") and name != IGNORE_FILE
        return hidden or name in SKIPPED


@tool("project.tree", effect="read", version=1, workspace=True)
async def tree(
    ctx: Context,
    depth: Annotated[int, Field(description="Folders inside each other.", ge=1, le=DEPTH)] = 8,
    limit: Annotated[
        int,
        Field(description="Files and folders at most. The upper levels come first.", ge=1, le=5000),
    ] = 500,
) -> ProjectTree:
    """Show the files of the workspace as a tree, in natural order (`a2` before `a10`).

    Hidden and binary files, links, installed packages and what `.gitignore` names are left out.
    """
    root = workspace(ctx)
    try:
        entries, cut = await visible(root)
        seen = await asyncio.to_thread(_tree, root, entries, depth, limit)
    except (OSError, TooLarge) as error:
        raise ToolFailed(f"The workspace cannot be read: {error}.") from error
    return seen.model_copy(update={"cut": True}) if cut else seen


async def visible(root: Path) -> tuple[list[Entry], bool]:
    """Return the entries of a workspace that are not hidden or ignored by git, and whether there
    are more than `LISTED`. Raises `OSError`, `TooLarge` or `ToolFailed`.
    """
    found = await asyncio.to_thread(_found, root)
    ignored = await _ignored(root, found[:LISTED])
    return [one for one in found[:LISTED] if one.path not in ignored], len(found) > LISTED


def _found(root: Path) -> list[Entry]:
    """The entries that are not hidden; one more than `LISTED` if there are more."""
    found = list(islice(walk(root, depth=DEPTH, skip=_Hidden()), LISTED + 1))
    for one in found:
        # git would wait for the other end of a pipe.
        if PurePosixPath(one.path).name == IGNORE_FILE and not (one.is_file or one.is_link):
            raise ToolFailed(f"{one.path!r} is not a regular file.")
    return found


async def _ignored(root: Path, found: list[Entry]) -> set[str]:
    """The paths that git ignores, by the `.gitignore` files of the workspace alone."""
    paths = b"\0".join(os.fsencode(one.path) for one in found)
    if not paths:
        return set()
    guard.watch()
    with scratch(f"{guard.mark}-tree", remove) as folder:
        git = await make(folder / "git")
        _, listed = await git(
            "check-ignore", "-z", "--stdin", "--no-index", folder=root, stdin=paths, ok=(0, 1)
        )
    return {os.fsdecode(path) for path in listed.split(b"\0") if path}


def _tree(root: Path, visible: list[Entry], depth: int, limit: int) -> ProjectTree:
    by_level = sorted(
        (one for one in visible if one.is_folder or _is_listed_file(one)),
        key=lambda one: (one.path.count("/"), _natural(one.path)),
    )
    near = [one for one in by_level if one.path.count("/") < depth]
    # A file is opened only if there is room to show it.
    shown = list(islice((one for one in near if one.is_folder or _is_text(root, one)), limit))
    end = by_level.index(shown[-1]) + 1 if len(shown) == limit else len(near)
    incomplete = {str(PurePosixPath(one.path).parent) for one in by_level[end:]}
    lines = [
        _line(one, cut=one.path in incomplete)
        for one in sorted(shown, key=lambda one: _natural(one.path))
    ]
    return ProjectTree(text="".join(lines), shown=len(lines), cut=bool(incomplete))


def _is_listed_file(entry: Entry) -> bool:
    return entry.is_file and PurePosixPath(entry.path).name != IGNORE_FILE


def _line(entry: Entry, *, cut: bool) -> str:
    path = PurePosixPath(entry.path)
    # A line break in a name would look like another file.
    name = path.name if path.name.isprintable() else ascii(path.name)
    end = "/" if entry.is_folder else ""
    return f"{INDENT * (len(path.parts) - 1)}{name}{end}{MORE if cut else ''}\n"


def _natural(path: str) -> list[tuple[list[str | int], str]]:
    """Return a sort key in which `a2` precedes `a10`, and a folder its contents."""
    return [
        ([int(part) if part.isdecimal() else part for part in _parts(name)], name)
        for name in path.split("/")
    ]


def _parts(name: str) -> list[str]:
    """Text and digits in turn, so that a text is never compared with a number."""
    return re.split(r"(\d+)", name.casefold())


def _is_text(root: Path, entry: Entry) -> bool:
    try:
        with os.fdopen(open_plain(root, entry.path), "rb") as stream:
            return b"\0" not in stream.read(SAMPLE)
    except OSError:  # the name is listed; reading the file raises the error
        return True
