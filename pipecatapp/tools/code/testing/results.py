"""Running tests, and what became of them."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pipecatapp.sandbox import Outcome
from pipecatapp.sandbox.bubblewrap import WORK
from pipecatapp.tools.code.program import execute
from pipecatapp.tools.code.run import ran
from pipecatapp.tools.code.testing.command import REPORT
from pipecatapp.tools.code.testing.junit import parse_junit
from pipecatapp.tools.code.testing.outcome import CaseOutcome, CaseResult, Tested
from pipecatapp.tools.code.testing.suite import Suite, taken
from pipecatapp.workflow import Context, ToolFailed

LISTED: Final = 2000
"""Tests that are listed; failing ones always are."""
NOT_FOUND: Final = re.compile(r"^\S+: \d+: (?:exec: )?(?P<program>.+): (?P<why>not found|Perm.*)$")
"""The shell's message for a program that cannot be started."""
STACK: Final = re.compile(rf'^  File "{WORK}/(?P<file>[^"]+)", line (?P<line>\d+) in (?P<name>.+)$')
REASON: Final = 400
"""Characters of a message of pytest that are passed on."""
USAGE, NO_TESTS = 4, 5
"""Exit codes of pytest."""


async def results(ctx: Context, suite: Suite, tests: Sequence[str] = ()) -> Tested:
    """Run some or all tests. Raises `ToolFailed` for a command that runs none."""
    errand = suite.errand(tests)
    await asyncio.to_thread(taken, suite.root, REPORT)
    ended = await execute(ctx, errand, suite.root, suite.packages)
    report = await asyncio.to_thread(taken, suite.root, REPORT)
    cases = None if report is None else parse_junit(report, suite.folder)
    _check(ended, suite.words, cases)
    return tested(ended, suite.words, cases)


def _check(ended: Outcome, words: Sequence[str], cases: Sequence[CaseResult] | None) -> None:
    """Raise `ToolFailed` for a command that runs no test, where the tests are not the reason."""
    if ended.stopped or cases:
        return
    stderr = ended.stderr.text
    lines = stderr.splitlines()
    if ended.exit_code in (126, 127) and (found := NOT_FOUND.match((lines or [""])[-1])):
        raise ToolFailed(f"The test command cannot be run: {found['program']}: {found['why']}.")
    if ended.exit_code == 1 and lines and lines[-1].endswith(": No module named pytest"):
        raise ToolFailed(
            "The test command cannot be run: pytest is missing. Install it with code.install, and"
            " give the id of that as `packages`."
        )
    if ended.exit_code == NO_TESTS or (cases is not None and ended.exit_code == 0):
        raise ToolFailed(f"The command {' '.join(words)!r} ran no test.")
    if ended.exit_code == USAGE and (at := stderr.find("ERROR: ")) >= 0:
        reason = " ".join(stderr[at:].removeprefix("ERROR: ").split())[:REASON]
        raise ToolFailed(f"pytest cannot run these tests: {reason}")


def tested(ended: Outcome, words: Sequence[str], cases: list[CaseResult] | None) -> Tested:
    """Return the end of a test command as data; `cases` are the reported tests, if any."""
    found = ran(replace(ended, changes={}))
    per_test = bool(cases)
    if not cases:
        cases = [_whole(ended, words)]
    counts = {kind: sum(case.outcome == kind for case in cases)
              for kind in ("passed", "failed", "error", "skipped")}  # fmt: skip
    listed, left_out = _listed(cases)
    return Tested(
        ok=found.ok,
        exit_code=found.exit_code,
        stopped=found.stopped,
        per_test=per_test,
        passed=counts["passed"],
        failed=counts["failed"],
        errors=counts["error"],
        skipped=counts["skipped"],
        tests=listed,
        tests_left_out=left_out,
        error=found.error,
        stdout=found.stdout,
        stderr=found.stderr,
        seconds=found.seconds,
    )


def _whole(ended: Outcome, words: Sequence[str]) -> CaseResult:
    """Return the command as one test; the test that hangs, if pytest has shown its stack."""
    if ended.stopped and (hanging := _hanging(ended)):
        return hanging
    error = ran(ended).error
    failed: CaseOutcome = "error" if ended.stopped or ended.exit_code is None else "failed"
    return CaseResult(
        id=" ".join(words),
        outcome="passed" if error is None else failed,
        seconds=ended.seconds,
        message="" if error is None else error.message,
        file=None if error is None else error.file,
        line=None if error is None else error.line,
    )


def _hanging(ended: Outcome) -> CaseResult | None:
    """Read the stack that pytest printed before the limit of time, innermost frame first."""
    found = [match for line in ended.stderr.text.splitlines() if (match := STACK.match(line))]
    if not found:
        return None
    inner, test = found[0], found[-1]
    return CaseResult(
        id=f"{test['file']}::{test['name']}",
        outcome="error",
        seconds=ended.seconds,
        message=f"stopped by its limit of {ended.stopped} in {inner['name']},"
        f" {inner['file']}:{inner['line']}",
        file=test["file"],
        line=int(test["line"]),
    )


def _listed(cases: list[CaseResult]) -> tuple[list[CaseResult], int]:
    """Leave out tests that passed or were skipped where there are too many."""
    room = max(0, LISTED - sum(case.outcome in ("failed", "error") for case in cases))
    listed: list[CaseResult] = []
    for case in cases:
        if case.outcome in ("failed", "error"):
            listed.append(case)
        elif room:
            room -= 1
            listed.append(case)
    return listed, len(cases) - len(listed)
