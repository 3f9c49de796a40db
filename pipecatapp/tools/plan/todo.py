"""The tool that reads items that people have added to the to-do list of a run."""

from typing import Annotated

from pydantic import BaseModel, Field

from pipecatapp.tools.plan.expand import Wanted
from pipecatapp.workflow import Context, Ledger, tool
from pipecatapp.workflow.storage import added


class NewItems(BaseModel):
    """The items added since the last call."""

    steps: list[Wanted] = Field(
        description="The items as steps of a plan, for `plan.expand`; the oldest first."
    )
    taken: int = Field(description="How many items have been read so far, for the next call.")


@tool("plan.todo", effect="read", version=1)
async def todo(
    ctx: Context,
    taken: Annotated[int, Field(description="How many items earlier calls have read.", ge=0)] = 0,
    files: Annotated[list[str], Field(description="The files of each of the steps.")] = [],  # noqa: B006
) -> NewItems:
    """Read the items that people have added to the to-do list of this run."""
    every = added(ctx.service(Ledger).read, ctx.run)
    steps = [
        Wanted(id=f"added_{number}", goal=item.text, files=files)
        for number, item in enumerate(every, 1)
        if number > taken
    ]
    return NewItems(steps=steps, taken=max(taken, len(every)))
