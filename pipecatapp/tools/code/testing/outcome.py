"""The results of a test command."""

from typing import Literal

from pydantic import BaseModel, Field

from pipecatapp.sandbox import Stopped
from pipecatapp.tools.code.errors import ProgramError

CaseOutcome = Literal["passed", "failed", "error", "skipped"]


class CaseResult(BaseModel):
    """The result of one test."""

    id: str = Field(description="As the runner takes it, such as `tests/test_a.py::test_b`.")
    outcome: CaseOutcome
    seconds: float
    message: str = Field(description="Why it failed or was skipped; empty if it passed.")
    file: str | None = Field(description="The file of the test, from the workspace.")
    line: int | None = Field(description="The line where the test begins.")


class Tested(BaseModel):
    """The results of all tests. A failing test is data: only a command that runs none fails."""

    ok: bool = Field(description="Whether the command ended by itself, with the exit code 0.")
    exit_code: int | None = Field(description="Its exit code; null where a limit ended it.")
    stopped: Stopped | None = Field(description="The limit that ended it: time, memory, disk …")
    per_test: bool = Field(
        description="Whether the runner reported each test; else the command counts as one test."
    )
    passed: int = Field(description="How many tests passed.")
    failed: int = Field(description="How many tests failed.")
    errors: int = Field(description="How many could not be run, such as files with errors.")
    skipped: int = Field(description="How many were skipped.")
    tests: list[CaseResult] = Field(
        description="Id, outcome, seconds, message, file and line of each, in the order they ran."
    )
    tests_left_out: int = Field(description="How many more passed or were skipped than are listed.")
    error: ProgramError | None = Field(
        description="The error of the first failing test, in the form of code.run."
    )
    stdout: str = Field(description="Its output; if it is long, the beginning and the end.")
    stderr: str = Field(description="Its standard error, shortened in the same way.")
    seconds: float = Field(description="Its duration in seconds.")
