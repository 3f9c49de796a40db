"""The tool that compares what was planned with what is there."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field

from pipecatapp.tools.code.edit.paths import fits
from pipecatapp.tools.files.place import inside, workspace
from pipecatapp.workflow import Context, ToolFailed, tool


class PlannedFile(BaseModel):
    """A file of the planned structure."""

    path: str
    purpose: str = ""


class Alignment(BaseModel):
    """How the files compare with the plan."""

    aligned: bool = Field(description="Whether all is there and nothing else was changed.")
    missing: list[PlannedFile] = Field(description="Planned files that do not exist.")
    empty: list[str] = Field(description="Planned files without content.")
    outside: list[str] = Field(description="Changed files that are not planned.")


@tool("check.alignment", effect="read", version=1, workspace=True)
async def alignment(
    ctx: Context,
    structure: Annotated[list[PlannedFile], Field(description="The files that were planned.")],
    changed: Annotated[list[str], Field(description="The files that were changed.")] = [],  # noqa: B006
    allowed: Annotated[
        list[str], Field(description="Patterns of files that may be changed besides.")
    ] = [],  # noqa: B006
) -> Alignment:
    """Compare the planned files with those in the workspace: which are missing or empty, and which
    were changed without being planned.
    """
    root = workspace(ctx)
    return await asyncio.to_thread(_compared, root, structure, changed, allowed)


def _compared(
    root: Path, structure: Sequence[PlannedFile], changed: Sequence[str], allowed: Sequence[str]
) -> Alignment:
    sizes = {planned.path: _size(root, planned.path) for planned in structure}
    missing = [planned for planned in structure if sizes[planned.path] is None]
    empty = [path for path, size in sizes.items() if size == 0 and not path.endswith("__init__.py")]
    fine = [planned.path for planned in structure] + list(allowed)
    outside = sorted({path for path in changed if not any(fits(path, one) for one in fine)})
    return Alignment(
        aligned=not (missing or empty or outside), missing=missing, empty=empty, outside=outside
    )


def _size(root: Path, path: str) -> int | None:
    try:
        place = root / inside(root, path)
        return place.stat().st_size if place.is_file() else None
    except (OSError, ToolFailed):
        return None
