"""The tool that knows the latest content of each file of a project, and its history."""

from datetime import datetime
from typing import Annotated, Final, cast

from pydantic import BaseModel, Field

from pipecatapp.tools.model.behalf import owner_of_run
from pipecatapp.workflow import Context, Ledger, ToolFailed, Workspaces, tool
from pipecatapp.workspace.folders import GitWorkspaces
from pipecatapp.workspace.history import History
from pipecatapp.workspace.worktree import GitWorktree

LISTED: Final = 500


class FoundLine(BaseModel):
    """A line that has the text."""

    path: str
    line: int
    text: str


class FileVersion(BaseModel):
    """A version of the file."""

    run: str
    state: str
    at: datetime
    about: str
    text: str | None = Field(description="Its content; null where the file was removed.")


class Memory(BaseModel):
    """The stored files of a project."""

    files: list[str] = Field(description="The paths of the files that have the name, by path.")
    left_out: int = Field(description="How many more there are.")
    lines: list[FoundLine] = Field(description="Path, line and text of lines that have the text.")
    content: str | None = Field(description="The latest content of the file `path`.")
    versions: list[FileVersion] = Field(
        description="The versions of the file `path`, the newest first."
    )


@tool("code.memory", effect="read", version=1, workspace=True)
async def memory(
    ctx: Context,
    path: Annotated[str, Field(description="A file whose content and history are wanted.")] = "",
    name: Annotated[str, Field(description="Part of the paths of files to list.")] = "",
    text: Annotated[str, Field(description="Text to look for in these files.")] = "",
    limit: Annotated[int, Field(description="Lines and versions at most.", ge=1, le=200)] = 20,
) -> Memory:
    """Find files of the project as the last run left them, also of earlier runs, by name and text.

    A project is the repository that the workspace was made from.
    """
    history = _history(ctx)
    files = await history.files(name)
    shown = [file.path for file in files[:LISTED]]
    lines = await history.search(text, files, limit) if text else []
    content, versions = None, []
    if path:
        found = next((file for file in await history.files() if file.path == path), None)
        content = await history.content(found.run, found.blob) if found else None
        for one in await history.versions(path, limit):
            old = await history.content(one.run, one.blob) if one.blob else None
            versions.append(
                FileVersion(run=one.run, state=one.state, at=one.at, about=one.about, text=old)
            )
    return Memory(
        files=shown,
        left_out=len(files) - len(shown),
        lines=[FoundLine(path=one.path, line=one.line, text=one.text) for one in lines],
        content=content,
        versions=versions,
    )


def _history(ctx: Context) -> History:
    """The states of the runs of the same repository that the owner of this run may read."""
    worktree = ctx.worktree
    if not isinstance(worktree, GitWorktree) or worktree.store.source is None:
        raise ToolFailed("The workspace was not made from a repository, so it is of no project.")
    workspaces = cast("GitWorkspaces", ctx.service(Workspaces))  # type: ignore[type-abstract]
    rows = ctx.service(Ledger).read.rows(
        "SELECT id FROM run WHERE ? IN ('', owner)", (owner_of_run(ctx),)
    )
    runs = {ctx.run, *(str(row["id"]) for row in rows)}
    return History(workspaces.root, worktree.store.source, runs)
