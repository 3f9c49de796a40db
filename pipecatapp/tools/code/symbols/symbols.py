"""The tool that lists the definitions of source files."""

import asyncio
import os
from itertools import islice
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, Field

from pipecatapp.sandbox.bubblewrap import WORK
from pipecatapp.sandbox.tree import TooLarge, open_plain, walk
from pipecatapp.tools.code.symbols import ctags
from pipecatapp.tools.code.symbols.definition import Definition
from pipecatapp.tools.code.symbols.python import python_definitions
from pipecatapp.tools.code.symbols.reading import is_python
from pipecatapp.tools.files.place import inside, workspace
from pipecatapp.workflow import Context, ToolFailed, tool

FILES: Final = 2000
"""Files of one call."""
DEPTH: Final = 100
LARGEST: Final = 1 << 20
"""Bytes of a file that is read; larger ones are generated, as a rule."""
SKIPPED: Final = frozenset({".git", "node_modules", "__pycache__", ".venv"})


class Symbol(Definition):
    """A definition with its file."""

    path: str


class Symbols(BaseModel):
    """Definitions in the order of their files and lines."""

    symbols: list[Symbol] = Field(description="Name, qualified name, kind, file and lines.")
    unread: list[str] = Field(description="Files that do not parse, or are too large.")
    cut: bool = Field(description="Whether there is more than was asked for.")


@tool("code.symbols", effect="read", version=1, workspace=True)
async def symbols(
    ctx: Context,
    path: Annotated[str, Field(description="A source file or a folder; `.` is all.")] = ".",
    limit: Annotated[int, Field(description="Definitions at most.", ge=1, le=20000)] = 2000,
) -> Symbols:
    """List classes, functions, methods and other definitions with their lines."""
    root = workspace(ctx)
    place = "" if Path(path) in (Path(), Path(WORK)) else inside(root, path)
    try:
        files = await source_files(root, place)
    except (OSError, TooLarge) as error:
        raise ToolFailed(f"{path!r} cannot be listed: {error}.") from error
    found = await asyncio.to_thread(_python, root, [one for one in files if is_python(one)])
    others = [one for one in files if ctags.known(one)]
    found.update(await ctags.definitions_in_files(ctx, root, others))
    listed = [
        Symbol(path=file, **one.model_dump()) for file in sorted(found) for one in found[file] or ()
    ]
    return Symbols(
        symbols=listed[:limit],
        unread=[file for file in sorted(found) if found[file] is None],
        cut=len(listed) > limit or len(files) == FILES,
    )


async def source_files(root: Path, place: str = "") -> list[str]:
    """List the source files at or below a place; links are not followed.

    Raises `OSError` and `TooLarge`.
    """
    return await asyncio.to_thread(_files, root, place)


def _files(root: Path, place: str) -> list[str]:
    if place and (root / place).is_file():
        return [place]
    entries = walk(root / place, depth=DEPTH, skip=SKIPPED)
    paths = (str(Path(place, one.path)) for one in entries if one.is_file)
    return list(islice((path for path in paths if is_python(path) or ctags.known(path)), FILES))


def _python(root: Path, files: list[str]) -> dict[str, list[Definition] | None]:
    found: dict[str, list[Definition] | None] = {}
    for file in files:
        with os.fdopen(open_plain(root, file), "rb") as stream:
            data = stream.read(LARGEST + 1)
        try:
            too_large = len(data) > LARGEST
            found[file] = None if too_large else python_definitions(data.decode("utf-8-sig"))
        except (SyntaxError, UnicodeDecodeError):
            found[file] = None
    return found
