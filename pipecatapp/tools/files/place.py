"""Where a path of a workspace really leads."""

import os
from pathlib import Path

from pipecatapp.sandbox.bubblewrap import WORK
from pipecatapp.workflow import Context, ToolFailed


def workspace(ctx: Context) -> Path:
    """The folder of the run."""
    if ctx.workspace is None:
        raise ToolFailed("This run has no workspace: name one in the workflow, `workspace: …`.")
    return ctx.workspace


def inside(root: Path, path: str) -> str:
    """The path below `root` that `path` really is, every link on the way resolved.

    Programs in the sandbox see the workspace as /work, so this prefix is accepted too. Raises
    `ToolFailed` for a path outside the workspace, and for a path in a folder named `.git`, which is
    not stored. The file system may change before the path is used: open it without following links.
    """
    if "\0" in path:
        raise ToolFailed(f"{path!r} is not a valid path.")
    real_root = root.resolve()
    given = Path(path)
    if given.is_relative_to(WORK):
        given = given.relative_to(WORK)
    real = Path(os.path.realpath(real_root / given))
    if real == real_root:
        raise ToolFailed(f"{path!r} is the workspace itself, not a file in it.")
    if not real.is_relative_to(real_root):
        raise ToolFailed(f"{path!r} leads out of the workspace.")
    found = real.relative_to(real_root)
    if any(part.casefold() == ".git" for part in found.parts):
        raise ToolFailed(f"{path!r} is in a .git folder, which a workspace does not save.")
    return str(found)
