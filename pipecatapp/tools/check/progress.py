"""The tool that finds out whether a repair goes in circles."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, Field

from pipecatapp.workflow import BY_AUTHOR, Context, tool


class Try(BaseModel):
    """The result of one attempt."""

    signature: str = Field(description="Signature of the error; empty if there was none.")
    tree: str = Field(description="Hash of all files after the attempt.")
    patch: str = Field(description="The change, as a unified diff.")


class Progress(BaseModel):
    """Whether going on makes sense."""

    stuck: bool = Field(description="Whether the attempts go in circles.")
    reason: str = Field(description="Why, for a person; empty if not.")


@tool("check.progress", effect="pure", version=1)
async def progress(
    ctx: Context,
    tries: Annotated[list[Try], Field(description="The attempts so far, the oldest first.")],
    repeats: Annotated[
        int, BY_AUTHOR, Field(description="Equal patches in a row that are too many.", ge=2, le=20)
    ] = 3,
) -> Progress:
    """Find out whether attempts go in circles: the same error in the same files, files that return
    to what they were, or the same patch again and again, also if each of them succeeded.
    """
    reason = _circle(tries, repeats)
    return Progress(stuck=bool(reason), reason=reason)


def _circle(tries: Sequence[Try], repeats: int) -> str:
    if len(tries) < 2:
        return ""
    *before, last = tries
    if last.signature and any(
        (one.signature, one.tree) == (last.signature, last.tree) for one in before
    ):
        return "The same files fail with the same error as before."
    if last.tree != before[-1].tree and any(one.tree == last.tree for one in before[:-1]):
        return "The files are the same as after an earlier attempt."
    patches = [one.patch for one in tries[-repeats:]]
    if len(patches) == repeats and len(set(patches)) == 1 and patches[0]:
        return f"The same change was made {repeats} times in a row."
    return ""
