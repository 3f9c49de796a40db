"""The tool that runs the tests of a project in the sandbox."""

from typing import Annotated

from pydantic import Field

from pipecatapp.tools.code.program import ProgramInputs
from pipecatapp.tools.code.testing.outcome import Tested
from pipecatapp.tools.code.testing.results import results
from pipecatapp.tools.code.testing.suite import SuiteInputs
from pipecatapp.workflow import Context, tool


@tool("code.test", effect="exec", version=1)
async def run_tests(
    ctx: Context,
    project: SuiteInputs,
    program: ProgramInputs,
    tests: Annotated[
        list[str], Field(description="Ids of the tests to run, for pytest; empty runs all.")
    ] = [],  # noqa: B006
) -> Tested:
    """Run the tests of a project in the sandbox and return the result of each.

    pytest reports each test, also if make or a script starts it. Any other command counts as one
    test.
    """
    suite = project.suite(ctx, program)
    return await results(ctx, suite, tests)
