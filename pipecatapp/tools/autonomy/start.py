"""The tool that starts a run of its own for a step."""

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
    run = await ctx.service(Author).authoring.start_child(
        workflow, inputs, parent=ctx.run, path=ctx.path, beside=kept(header_of(ctx))
    )
    return ChildRun(run=run)
