"""The tools that start a separate run for a step."""

from typing import Annotated, Any

from pydantic import BaseModel, Field

from pipecatapp.tools.autonomy.authoring import Author
from pipecatapp.tools.model.behalf import header_of, kept
from pipecatapp.workflow import BY_AUTHOR, Context, tool


class ChildRun(BaseModel):
    """The run that was started."""

    run: str = Field(description="Its id.")


@tool("run.start", effect="external", version=1, approve="always", idempotent=True)
async def start(
    ctx: Context,
    workflow: Annotated[str, BY_AUTHOR, Field(description="The workflow to run.", min_length=1)],
    inputs: Annotated[dict[str, Any], BY_AUTHOR, Field(description="Its inputs.")] = {},  # noqa: B006
) -> ChildRun:
    """Start a run with its own id and log, for the same owner. It goes on when this run ends."""
    return await _started(ctx, workflow, inputs)


@tool("autonomy.start", effect="external", version=1, approve="always", idempotent=True)
async def start_autonomy(
    ctx: Context,
    text: Annotated[
        str,
        Field(description="The task, with all known details.", min_length=1, max_length=4000),
    ],
    max_rounds: Annotated[
        int, BY_AUTHOR, Field(description="How many workflows it may write.", ge=1, le=10)
    ] = 3,
) -> ChildRun:
    """Let a model write and run a workflow for a large task, which needs several steps or tools.

    It goes on after this answer and asks the user before it runs anything.
    """
    return await _started(ctx, "autonomy", {"text": text, "max_rounds": max_rounds})


async def _started(ctx: Context, workflow: str, inputs: dict[str, Any]) -> ChildRun:
    run = await ctx.service(Author).authoring.start_child(
        workflow, inputs, parent=ctx.run, path=ctx.path, beside=kept(header_of(ctx))
    )
    return ChildRun(run=run)
