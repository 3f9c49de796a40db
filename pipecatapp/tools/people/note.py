"""A word to the people who follow a run, without waiting for theirs."""

from typing import Annotated

from pydantic import BaseModel, Field

from pipecatapp.workflow import Context, tool

LONGEST = 4000
"""Characters. A note is a remark; longer texts are files."""


class Told(BaseModel):
    """The message, as it was stored."""

    text: str = Field(description="The note, as people see it at the run.")


@tool("human.note", effect="human", version=1)
async def note(
    ctx: Context,
    text: Annotated[str, Field(description="The message.", min_length=1, max_length=LONGEST)],
) -> Told:
    """Show a message at the run, and continue without waiting."""
    await ctx.say(text)
    ctx.record(note=text)
    return Told(text=text)
