"""The files of a run: those that it was given, and those that it made."""

import asyncio
import mimetypes
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from pydantic import BaseModel, Field

from pipecatapp.workflow import Engine, InvalidInputs, Plan
from pipecatapp.workflow.storage import Reader, facts_of, state_in
from pipecatapp.workspace import GitWorkspaces, GitWorktree, NotUploaded, StoredFile, Uploads

Json = dict[str, Any]

LARGEST: Final = 256 * 1024 * 1024
"""Bytes of a file that is sent whole."""
MOST: Final = 10_000
"""Files in one list."""
TEXT: Final = "text/plain"


class UnknownRunFile(LookupError):
    """The run has no such file; the message says where to look."""


class FileTooLarge(ValueError):
    """The file exceeds `LARGEST`."""


class RunFile(BaseModel):
    """A file of a run's workspace."""

    path: str
    size: int = Field(description="Bytes.")
    type: str = Field(description="Media type, by the name.")
    changed: bool = Field(description="Whether the run made or changed it.")


class RunFiles(BaseModel):
    """The files of a run, those that it made first."""

    files: list[RunFile]
    total: int = Field(description="Number of files, also of those that the list leaves out.")
    kept: bool = Field(
        default=True, description="False if the workspace of the run is not stored here any more."
    )


class FilesOfRuns:
    """Takes files for runs, and reads the files of their workspaces."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def upload(self, body: AsyncIterator[bytes]) -> str:
        """Store a file as it arrives; return its id. Raises `NotUploaded`."""
        return await self._uploads.add(body)

    async def given_to(self, plan: Plan, files: Mapping[str, str]) -> Plan:
        """Return the plan with a workspace that begins with these uploads, by path.

        Raises `NotUploaded`, and `InvalidInputs` for a workflow that names a repository.
        """
        if not files:
            return plan
        if plan.workspace is not None:
            raise InvalidInputs(
                f"The workflow {plan.workflow!r} takes its files from a repository, so its runs "
                "cannot be given others."
            )
        return plan.beginning_with(self._uploads.place, await self._uploads.commit(files))

    def inherited(self, plan: Plan, origin: Json) -> Plan:
        """Return the plan of a fork with the files that the plan `origin` was given."""
        commit = self._given_in(origin)
        if plan.workspace is not None or commit is None:
            return plan
        return plan.beginning_with(self._uploads.place, commit)

    async def keep(self, run: str) -> None:
        """Keep the files that a run was given as long as the run."""
        commit = self._given_in(self._engine.ledger.read.value(self._engine.row(run).plan))
        if commit is not None:
            await self._uploads.use(run, commit)

    def _given_in(self, plan: Json) -> str | None:
        """The commit of the uploads that a plan's workspace begins with; None for another one."""
        workspace, here = plan.get("workspace"), self._workspaces
        if workspace and here and workspace["repo"] == here.uploads.place:
            return str(workspace["commit"])
        return None

    async def of(self, run: str, step: str | None = None, *, everything: bool = False) -> RunFiles:
        """Return the files that a run made or changed; with `everything`, also the others.

        `step` names a call, for the files as it left them. Raises `UnknownRun`.
        """
        self._engine.row(run)
        states = await asyncio.to_thread(_states, self._engine.ledger.read, run, step)
        if states is None:
            return RunFiles(files=[], total=0)
        worktree = await self._worktree(run)
        if worktree is None or await worktree.content(states[1]) is None:
            return RunFiles(files=[], total=0, kept=False)
        before = await worktree.files(states[0])
        after = await worktree.files(states[1])
        found = [
            _shown(file, before)
            for file in after.values()
            if everything or file != before.get(file.path)
        ]
        found.sort(key=lambda one: (not one.changed, one.path))
        return RunFiles(files=found[:MOST], total=len(found))

    async def read(self, run: str, path: str, step: str | None = None) -> tuple[bytes, str]:
        """Return a file's content and its media type.

        Raises `UnknownRun`, `UnknownRunFile` and `FileTooLarge`.
        """
        self._engine.row(run)
        states = await asyncio.to_thread(_states, self._engine.ledger.read, run, step)
        worktree = await self._worktree(run) if states else None
        if states is None or worktree is None or await worktree.content(states[1]) is None:
            raise UnknownRunFile(f"The run {run} has no files here.")
        file = (await worktree.files(states[1])).get(path)
        if file is None:
            raise UnknownRunFile(
                f"The run {run} has no file {path!r}. `hearth runs files {run} --all` lists them."
            )
        if file.size > LARGEST:
            raise FileTooLarge(
                f"{path!r} has {file.size:,} bytes; at most {LARGEST:,} are sent at once."
            )
        return await worktree.read(file), type_of(path)

    async def _worktree(self, run: str) -> GitWorktree | None:
        """The folder of a run; None if it was never made or is gone."""
        if self._workspaces is None or not self._workspaces.has(run):
            return None
        return await self._workspaces.open(run, None)

    @property
    def _workspaces(self) -> GitWorkspaces | None:
        workspaces = self._engine.workspaces
        return workspaces if isinstance(workspaces, GitWorkspaces) else None

    @property
    def _uploads(self) -> Uploads:
        if self._workspaces is None:
            raise NotUploaded("Runs have no workspaces here, so they cannot be given files.")
        return self._workspaces.uploads


def type_of(path: str) -> str:
    """Return the media type of a file by its name: `application/octet-stream` if unknown."""
    if path.endswith((".md", ".yaml", ".yml", ".log", ".toml")):
        return TEXT
    kind, encoding = mimetypes.guess_type(path)
    return "application/octet-stream" if encoding or not kind else kind


def _shown(file: StoredFile, before: Mapping[str, StoredFile]) -> RunFile:
    return RunFile(
        path=file.path.encode(errors="replace").decode(),
        size=file.size,
        type=type_of(file.path),
        changed=file != before.get(file.path),
    )


def _states(read: Reader, run: str, path: str | None) -> tuple[str, str] | None:
    """The states of the run's own folder at its start and after a step, or after the last one."""
    facts = [fact for fact in facts_of(read, run) if not fact["tree"]]
    if path is not None:
        step = read.step(run, path)
        fact = state_in(read.value(step.facts)) if step is not None else None
        return None if fact is None else ((facts or [fact])[0]["before"], fact["after"])
    return (facts[0]["before"], facts[-1]["after"]) if facts else None
