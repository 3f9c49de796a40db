"""The tests of a project: how they are run, and where."""

import contextlib
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from pipecatapp.sandbox import Limits
from pipecatapp.sandbox.bubblewrap import WORK
from pipecatapp.sandbox.errand import Errand
from pipecatapp.sandbox.tree import open_plain, parent_of
from pipecatapp.tools.code.program import ProgramInputs
from pipecatapp.tools.code.testing.command import chosen, inside, options_of_pytest, words_of
from pipecatapp.tools.files.place import inside as below
from pipecatapp.tools.files.place import workspace
from pipecatapp.workflow import Context, ToolFailed, ToolInputs

LARGEST: Final = 32 << 20
"""Bytes of a report that is read."""


@dataclass(frozen=True)
class Suite:
    """A test command with its folder, environment and limits."""

    root: Path
    folder: str
    """The project's folder in the workspace `root`; empty for the workspace itself."""
    words: Sequence[str]
    environment: Mapping[str, str]
    packages: str
    limits: Limits

    @property
    def project(self) -> Path:
        """The project's folder."""
        return self.root / self.folder

    def errand(
        self, tests: Sequence[str] = (), *, options: Sequence[str] = (), path: str = ""
    ) -> Errand:
        """Return the program that runs some or all tests.

        pytest gets further `options` and imports modules from the folder `path`, too.
        """
        words = chosen(self.words, tests, self.project) if tests else self.words
        told = [*options_of_pytest(self.folder, self.limits.seconds), *options]
        own = f"{WORK}/{self.folder}" if self.folder else WORK
        given = {"PYTHONPATH": own, **self.environment}
        given["PYTEST_ADDOPTS"] = f"{shlex.join(told)} {given.get('PYTEST_ADDOPTS', '')}".rstrip()
        if path:
            given["PYTHONPATH"] = f"{given['PYTHONPATH']}:{path}"
        return Errand(inside(words, self.folder), self.limits, environment=given)


class SuiteInputs(ToolInputs):
    """The command that runs the tests of a project."""

    command: Annotated[
        str | list[str],
        Field(description="Runs the tests, such as `pytest -q`; a list has one word per item."),
    ]
    folder: Annotated[str, Field(description="The project's folder in the workspace.")] = "."

    def suite(self, ctx: Context, program: ProgramInputs) -> Suite:
        """Return the command with its checked environment and limits. Raises `ToolFailed`."""
        root = workspace(ctx)
        return Suite(
            root=root,
            folder=_folder(root, self.folder),
            words=words_of(self.command),
            environment=program.variables(),
            packages=program.packages,
            limits=program.limits(ctx),
        )


def _folder(root: Path, folder: str) -> str:
    """Return the path of a folder below the workspace; empty for the workspace itself."""
    if Path(folder) in (Path(), Path(WORK)):
        return ""
    place = below(root, folder)
    if not (root / place).is_dir():
        raise ToolFailed(f"{folder!r} is not a folder of the workspace.")
    return place


def taken(root: Path, name: str) -> bytes | None:
    """Read a file that a program has left in the workspace, and remove it."""
    try:
        with os.fdopen(open_plain(root, name), "rb") as stream:
            data = stream.read(LARGEST + 1)
    except OSError:
        data = None
    with contextlib.suppress(OSError), parent_of(root, name) as (parent, last):
        os.unlink(last, dir_fd=parent)
    return None if data is None or len(data) > LARGEST else data
