"""The tool that finds the function with the bug that makes a test fail."""

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Annotated, Final

from pydantic import BaseModel, Field

from pipecatapp.sandbox import Outcome
from pipecatapp.sandbox.bubblewrap import WORK
from pipecatapp.tools.code.localise.functions import Function, functions_of
from pipecatapp.tools.code.localise.ranking import rank
from pipecatapp.tools.code.localise.trace import Trace, traces
from pipecatapp.tools.code.program import ProgramInputs
from pipecatapp.tools.code.testing.outcome import Tested
from pipecatapp.tools.code.testing.results import results
from pipecatapp.tools.code.testing.suite import Suite, SuiteInputs
from pipecatapp.workflow import Context, ToolFailed, tool

FAILING: Final = 10
"""Failing tests that are traced."""


class Suspect(BaseModel):
    """A function that may have the bug."""

    symbol: str = Field(description="Its qualified name; `<module>` is code outside of functions.")
    file: str = Field(description="From the workspace.")
    line: int = Field(description="The first line, decorators included.")
    end_line: int
    score: float = Field(description="How suspicious it is, from 0 to 1.")


class Localised(BaseModel):
    """The functions that most likely have the bug."""

    symbols: list[Suspect] = Field(
        description="Symbol, file, first and last line and score, the most suspicious first."
    )
    failing: list[str] = Field(description="The failing tests that were traced.")
    passing: list[str] = Field(description="The passing tests that they were compared with.")


@tool("code.localise", effect="exec", version=1)
async def localise(
    ctx: Context,
    project: SuiteInputs,
    program: ProgramInputs,
    failing: Annotated[
        list[str],
        Field(description="Ids of failing tests, as code.test gives them; empty finds some."),
    ] = [],  # noqa: B006
    top: Annotated[int, Field(description="Functions at most.", ge=1, le=50)] = 5,
    passing: Annotated[
        int, Field(description="Passing tests to compare with, at most.", ge=0, le=200)
    ] = 20,
) -> Localised:
    """Find the function that makes a test fail, by the lines that failing and passing tests run.

    No model is called. For a command other than pytest, the place of its error is returned.
    """
    if ctx.where != "local":
        raise ToolFailed("Functions are found on this machine only: leave out `where`.")
    suite = project.suite(ctx, program)
    if not failing:
        tested = await results(ctx, suite)
        failing = [case.id for case in tested.tests if case.outcome in ("failed", "error")]
        if not failing:
            raise ToolFailed("No test fails, so there is no bug to find.")
        if not tested.per_test and tested.stopped is None:
            return await _place_of_error(ctx, suite, tested, top)
    return await _traced(ctx, suite, failing[:FAILING], passing, top)


async def _traced(
    ctx: Context, suite: Suite, wanted: Sequence[str], passing: int, top: int
) -> Localised:
    """Compare failing tests with passing ones."""
    found, ended = await traces(ctx, suite, wanted, passing)
    failed = [one for one in found if one.test in wanted and not one.passed]
    passed = [one for one in found if one.passed and one.test not in wanted]
    if not failed:
        raise ToolFailed(_reason(found, wanted, ended))
    files = {file for one in failed for file, _line in (*one.lines, *one.frames)}
    ranked = rank(failed, passed, await functions_of(ctx, suite.root, files))
    return Localised(
        symbols=[_suspect(function, score) for function, score in ranked[:top]],
        failing=[one.test for one in failed],
        passing=[one.test for one in passed],
    )


def _reason(found: Sequence[Trace], wanted: Sequence[str], ended: Outcome) -> str:
    """Say why no failing test was traced."""
    names = ", ".join(wanted)
    if any(one.test in wanted for one in found):
        return f"These tests pass when they are run once more: {names}."
    if ended.stopped:
        return f"The tests were stopped by their limit of {ended.stopped} before {names} ended."
    lines = (ended.stderr.text or ended.stdout.text).strip().splitlines()
    return f"The command does not run {names}. It printed: {lines[-1] if lines else 'nothing'}"


async def _place_of_error(ctx: Context, suite: Suite, tested: Tested, top: int) -> Localised:
    """Return the function that the output of another command than pytest shows."""
    error = tested.error
    if error is None or error.file is None:
        raise ToolFailed("The output of the command shows no place in the project.")
    path = PurePosixPath(WORK, suite.folder, error.file)
    file = str(path.relative_to(WORK)) if path.is_relative_to(WORK) else error.file
    trace = Trace(tested.tests[0].id, passed=False, lines=frozenset(),
                  frames=((file, error.line or 1),))  # fmt: skip
    ranked = rank([trace], [], await functions_of(ctx, suite.root, [file]))
    if not ranked:
        raise ToolFailed(f"The error is in {error.file}, which is not a file of the project.")
    symbols = [_suspect(function, score) for function, score in ranked[:top]]
    return Localised(symbols=symbols, failing=[trace.test], passing=[])


def _suspect(function: Function, score: float) -> Suspect:
    return Suspect(
        symbol=function.symbol,
        file=function.file,
        line=function.line,
        end_line=function.end_line,
        score=score,
    )
