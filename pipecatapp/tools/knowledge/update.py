"""The tool `rag.update`: compare a source with its documents now."""

from typing import Annotated

from pydantic import BaseModel, Field

from pipecatapp.tools.knowledge.knowledge import Knowledge, UnknownSource
from pipecatapp.tools.model.behalf import owner_of_run
from pipecatapp.workflow import Context, ToolFailed, tool


class UpdatedSource(BaseModel):
    """A source after the update."""

    source: str = Field(description="Its name.")
    files: int = Field(description="Indexed files.")
    failed: int = Field(description="Files that cannot be indexed.")
    passages: int = Field(description="Passages of these files.")
    error: str = Field(description="Why its files could not be compared; empty if they could.")


@tool("rag.update", effect="external", version=1, approve="never")
async def update(
    ctx: Context,
    source: Annotated[str, Field(description="Name of the source.", min_length=1, max_length=64)],
) -> UpdatedSource:
    """Index the changed documents of a source now, and wait until they are indexed."""
    knowledge, reader = ctx.service(Knowledge), owner_of_run(ctx)
    try:
        await knowledge.update(source, reader)
        await knowledge.indexer.settled()
        done = await knowledge.show(source, reader)
    except UnknownSource as error:
        raise ToolFailed(str(error)) from error
    counts = done.counts
    return UpdatedSource(
        source=source, files=counts.files, failed=counts.failed, passages=counts.passages,
        error=done.error,
    )  # fmt: skip
