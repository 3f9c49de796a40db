"""The tool that repairs mechanical mistakes of a project without a model."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, Field

from pipecatapp.sandbox.tree import TooLarge
from pipecatapp.tools.code.context.candidates import (
    Sources,
    Suspicious,
    candidates_of_suspects,
    candidates_used,
)
from pipecatapp.tools.code.edit.paths import allowed
from pipecatapp.tools.code.edit.refusal import Refused
from pipecatapp.tools.code.edit.transaction import Change, read_file, write_all
from pipecatapp.tools.code.errors import ProgramError
from pipecatapp.tools.code.fix import names
from pipecatapp.tools.code.fix.data import data
from pipecatapp.tools.code.fix.lint import linted
from pipecatapp.tools.code.fix.logic import logic
from pipecatapp.tools.code.fix.problem import Candidate, Problem, problem_of
from pipecatapp.tools.code.fix.syntax import syntax
from pipecatapp.tools.code.program import ProgramInputs
from pipecatapp.tools.code.symbols.symbols import source_files
from pipecatapp.tools.code.testing.comparing import failing, why_not_fixed
from pipecatapp.tools.code.testing.outcome import Tested
from pipecatapp.tools.code.testing.results import results
from pipecatapp.tools.code.testing.suite import Suite, SuiteInputs
from pipecatapp.workflow import BY_AUTHOR, Context, ToolFailed, tool

TESTS: Final = ("tests/**", "test/**", "**/tests/**", "**/test_*.py", "**/*_test.py",
                "**/conftest.py")  # fmt: skip
"""Files that are never changed."""
FIXERS: Final[tuple[Callable[[Problem], Iterator[Candidate]], ...]] = (
    syntax,
    names.missing_imports,
    names.similar_names,
    names.similar_attributes,
    names.similar_imports,
    names.similar_keys,
)


class TriedChange(BaseModel):
    """A change that was tried."""

    path: str
    kind: str = Field(description="Such as `import`, `name`, `colon`, `json` or `ruff`.")
    about: str = Field(description="The line, before and after.")
    kept: bool = Field(description="Whether it is still there.")
    reason: str = Field(description="Why it was not kept; else empty.")


class Fixed(BaseModel):
    """The result of a repair. Tests that still fail are not an error."""

    fixed: list[str] = Field(description="Tests that failed before and pass now.")
    failing: list[str] = Field(description="Tests that still fail.")
    changes: list[TriedChange] = Field(description="Every change, in the order they were tried.")
    tested: Tested = Field(description="The results of all tests at the end, as of code.test.")


@tool("code.fix", effect="exec", version=3)
async def fix(
    ctx: Context,
    project: SuiteInputs,
    program: ProgramInputs,
    may_touch: Annotated[
        list[str],
        BY_AUTHOR,
        Field(description="Patterns of files to change, such as `src/**`; empty allows all."),
    ] = [],  # noqa: B006
    protected: Annotated[
        list[str],
        BY_AUTHOR,
        Field(description="Patterns of files never to change, besides the tests."),
    ] = [],  # noqa: B006
    attempts: Annotated[
        int, BY_AUTHOR, Field(description="Changes that are tried, at most.", ge=1, le=100)
    ] = 10,
    suspects: Annotated[
        list[Suspicious],
        Field(
            description="Places in functions that may have the bug, such as those of code.localise."
            " With them, small mistakes of logic are tried after all others."
        ),
    ] = [],  # noqa: B006
) -> Fixed:
    """Repair misspelt names, missing imports, wrong indentation and missing brackets in Python.

    Also JSON and YAML files that do not parse, and what ruff can fix, if it is the command.
    With `suspects` also an operator, a comparison, a number, a condition or two arguments.
    No model is called. A change is kept only if the failing test passes and no other test fails.
    """
    suite = project.suite(ctx, program)
    before = await results(ctx, suite)
    if before.ok:
        raise ToolFailed("No test fails, so there is nothing to fix.")
    places = await _with_used(ctx, suite.root, suspects)
    repair = Repair(ctx, suite, (may_touch, [*TESTS, *protected]), before, places)
    while len(repair.tried) < attempts and await repair.round(attempts):
        pass
    left = failing(repair.tested)
    return Fixed(
        fixed=[test for test in failing(before) if test not in left],
        failing=left,
        changes=repair.tried,
        tested=repair.tested,
    )


async def _with_used(
    ctx: Context, root: Path, suspects: Sequence[Suspicious]
) -> list[Suspicious]:  # fmt: skip
    """Add the functions that the suspected ones use: the bug may be in what a test calls."""
    sources = Sources(ctx, root)
    found = await candidates_of_suspects(sources, suspects)
    used = await candidates_used(sources, await source_files(root), found) if found else []
    return [*suspects, *(Suspicious(file=one.path, line=one.start) for one in used)]


class Repair:
    """Tries changes, one after the other, and keeps those that help."""

    def __init__(
        self, ctx: Context, suite: Suite, files: tuple[Sequence[str], Sequence[str]],
        tested: Tested, suspects: Sequence[Suspicious],
    ) -> None:  # fmt: skip
        """`files`: patterns of those that may be changed, and of those that must not."""
        self._ctx, self._suite, self._files = ctx, suite, files
        self._suspects = suspects
        self.tested = tested
        self.tried: list[TriedChange] = []

    async def round(self, attempts: int) -> bool:
        """Repair the first error; False if nothing helps, or all tests pass."""
        if self.tested.ok:
            return False
        if not self.tried and (changes := await linted(self._ctx, self._suite, *self._files)):
            paths = ", ".join(change.path for change in changes)
            about = f"the fixes of ruff in {paths}"
            if await self._kept(changes, Candidate("ruff", about, "")):
                return True
        proposed = await asyncio.to_thread(self._proposed)
        for path, candidate in proposed[: attempts - len(self.tried)]:
            if await self._helps(path, candidate):
                return True
        return False

    def _proposed(self) -> list[tuple[str, Candidate]]:
        """Return the changes to try, with their files. Raises `ToolFailed`."""
        root = self._suite.root
        try:
            problem = problem_of(self.tested.error, root, self._suite.folder)
            found = [] if problem is None else [(problem.path, c) for c in _candidates(problem)]
            if self.tested.error is not None and _is_about_data(self._suite, self.tested.error):
                found += data(root)
            return found + list(self._logical(root))
        except (OSError, TooLarge) as reason:
            raise ToolFailed(f"The project cannot be read: {reason}.") from reason

    def _logical(self, root: Path) -> Iterator[tuple[str, Candidate]]:
        """Yield changes of the logic of the suspected functions, the most suspicious first."""
        known: set[tuple[str, str]] = set()
        for suspect in self._suspects:
            if not suspect.file.endswith(".py") or not self._is_allowed(suspect.file):
                continue
            there = read_file(root, suspect.file)
            if there is None or suspect.line is None:
                continue
            for candidate in logic(there[0].decode(errors="replace"), suspect.line):
                if (suspect.file, candidate.text) not in known:
                    known.add((suspect.file, candidate.text))
                    yield suspect.file, candidate

    def _is_allowed(self, path: str) -> bool:
        """Whether a file may be changed: tests, for example, are not."""
        try:
            allowed(self._suite.root, path, *self._files)
        except Refused:
            return False
        return True

    async def _helps(self, path: str, candidate: Candidate) -> bool:
        """Apply a candidate and test it; undo it unless it helps."""
        root = self._suite.root
        try:
            allowed(root, path, *self._files)
            there = await asyncio.to_thread(read_file, root, path)
            if there is None:
                return False
        except Refused as error:
            self._add(path, candidate, error.message)
            return False
        change = Change(path, there[0], candidate.text.encode(), there[1])
        return await self._kept([change], candidate)

    async def _kept(self, changes: Sequence[Change], candidate: Candidate) -> bool:
        """Write changes and test them; undo them unless they help."""
        root = self._suite.root
        try:
            await asyncio.to_thread(write_all, root, changes)
        except OSError as error:
            names = ", ".join(change.path for change in changes)
            raise ToolFailed(f"{names} cannot be changed: {error.strerror or error}.") from error
        try:
            after = await results(self._ctx, self._suite)
            reason = why_not_fixed(self.tested, after)
        except ToolFailed as error:
            reason = str(error)
        self._add(changes[0].path, candidate, reason)
        if reason:
            undo = [replace(one, before=one.after, after=one.before) for one in changes]
            await asyncio.to_thread(write_all, root, undo)
            return False
        self.tested = after
        return True

    def _add(self, path: str, candidate: Candidate, reason: str) -> None:
        self.tried.append(
            TriedChange(
                path=path,
                kind=candidate.kind,
                about=candidate.about,
                kept=not reason,
                reason=reason,
            )
        )


def _is_about_data(suite: Suite, error: ProgramError) -> bool:
    """Whether the reason may be a JSON or YAML file, by the error and the command."""
    text = f"{error.type} {error.message} {' '.join(suite.words)}".lower()
    return any(name in text for name in ("json", "yaml", ".yml"))


def _candidates(problem: Problem) -> list[Candidate]:
    """Return the changes of all fixers, each resulting text once."""
    found: dict[str, Candidate] = {}
    for fixer in FIXERS:
        for candidate in fixer(problem):
            found.setdefault(candidate.text, candidate)
    return list(found.values())
