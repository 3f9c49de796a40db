"""The tool that counts how an answer in an edit format did."""

from typing import Annotated

from pydantic import BaseModel, Field

from pipecatapp.records import edits
from pipecatapp.records.edits import EditFormat
from pipecatapp.workflow import Context, Ledger, tool


class Outcome(BaseModel):
    """The counts of the model in this format, this answer included."""

    asked: int = Field(description="Answers that were asked for.")
    applied: int = Field(description="Answers that could be applied.")
    green: int = Field(description="Answers that made the tests pass.")


@tool("code.outcome", effect="external", version=1, idempotent=True, approve="never")
async def outcome(
    ctx: Context,
    model: Annotated[
        str, Field(description="The `served` model of code.approach.", min_length=1, max_length=200)
    ],
    format: Annotated[EditFormat, Field(description="The edit format of its answer.")],
    applied: Annotated[bool, Field(description="Whether the change could be applied.")],
    green: Annotated[bool, Field(description="Whether the tests passed with it.")],
) -> Outcome:
    """Count one answer of a model; code.approach chooses the edit format by these counts."""
    call = (ctx.run, ctx.path)
    counted = await edits.count(
        ctx.service(Ledger), model, format, call, applied=applied, green=green and applied
    )
    return Outcome(**counted._asdict())
