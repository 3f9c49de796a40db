"""A file or a folder of the workspace, taken away."""

import asyncio
import os
import stat
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field

from pipecatapp.sandbox import tree
from pipecatapp.sandbox.bubblewrap import WORK
from pipecatapp.tools.files.place import inside, workspace
from pipecatapp.workflow import Context, ToolFailed, tool


class Deleted(BaseModel):
    """The deleted file or folder."""

    path: str = Field(description="Where it was in the workspace, links on the way resolved.")
    folder: bool = Field(description="Whether it was a folder, with all that was in it.")


@tool("file.delete", effect="workspace", version=1)
async def delete(
    ctx: Context,
    path: Annotated[str, Field(description="A file, a link or a folder.", min_length=1)],
) -> Deleted:
    """Delete a file, or a folder with all in it; a reset of the workspace brings it back."""
    root = workspace(ctx)
    place = _place(root, path)
    try:
        folder = await asyncio.to_thread(_delete, root, place)
    except FileNotFoundError:
        raise ToolFailed(f"There is no {path!r}.") from None
    except OSError as error:
        raise ToolFailed(f"{path!r} cannot be deleted: {error.strerror or error}.") from error
    return Deleted(path=place, folder=folder)


def _place(root: Path, path: str) -> str:
    """Where it is; of a link, where the link is, not what it leads to."""
    given = Path(path)
    given = given.relative_to(WORK) if given.is_relative_to(WORK) else given
    if given.name in ("", "..") or given.name.casefold() == ".git":
        return inside(root, path)
    parent = str(given.parent)
    return given.name if parent == "." else str(Path(inside(root, parent), given.name))


def _delete(root: Path, place: str) -> bool:
    """By the open folder that holds it, so that no link changes what is meant."""
    with tree.parent_of(root, place) as (folder, name):
        if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=folder)
            return False
        tree.remove(Path(f"/proc/{os.getpid()}/fd/{folder}", name))
        return True
