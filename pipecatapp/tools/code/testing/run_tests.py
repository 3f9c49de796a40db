"""The tool that runs the tests of a project in the sandbox."""

from typing import Annotated

from pydantic import Field

from pipecatapp.tools.code.testing.outcome import Tested
from pipecatapp.tools.code.testing.results import results
from pipecatapp.tools.code.testing.suite import suite_of
from pipecatapp.workflow import BY_AUTHOR, Context, tool


@tool("code.test", effect="exec", version=1)
async def run_tests(
    ctx: Context,
    command: Annotated[
        str | list[str],
        Field(description="Runs the tests, such as `pytest -q`; a list has one word per item."),
    ],
    folder: Annotated[str, Field(description="The project's folder in the workspace.")] = ".",
    tests: Annotated[
        list[str], Field(description="Ids of the tests to run, for pytest; empty runs all.")
    ] = [],  # noqa: B006
    environment: Annotated[
        dict[str, str], BY_AUTHOR, Field(description="Variables of the command.")
    ] = {},  # noqa: B006
    packages: Annotated[
        str,
        BY_AUTHOR,
        Field(description="Python packages to have: the `id` that code.install gave."),
    ] = "",
    seconds: Annotated[
        float, BY_AUTHOR, Field(description="How long all tests may take.", gt=0, le=3600)
    ] = 60.0,
    memory_mb: Annotated[
        int, BY_AUTHOR, Field(description="MiB for all of its processes together.", ge=16, le=65536)
    ] = 1024,
) -> Tested:
    """Run the tests of a project in the sandbox and return the result of each.

    pytest reports each test, also if make or a script starts it. Any other command counts as one
    test.
    """
    suite = suite_of(
        ctx,
        command,
        folder=folder,
        environment=environment,
        packages=packages,
        seconds=seconds,
        memory_mb=memory_mb,
    )
    return await results(ctx, suite, tests)
