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

    Programs in the sandbox know the workspace as /work, so that is understood, too. Raises
    `ToolFailed` for a path that leads out, and for what lies in a folder named `.git`, which is not
    kept. What the path is may change between this and its use: open it without following links.
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
