"""Tools for issues of the bug tracker."""

from typing import Annotated

from pydantic import BaseModel, Field

from pipecatapp.tools.ports.opening import Ports
from pipecatapp.tools.ports.port import Issue, IssueState
from pipecatapp.workflow import Context, tool

Id = Annotated[str, Field(description="The id of the issue.", min_length=1, max_length=100)]
Text = Annotated[str, Field(description="Text.", min_length=1, max_length=20000)]


class FoundIssue(Issue):
    """An issue."""

    id: str = Field(description="Its id.")
    title: str = Field(description="Its title.")
    text: str = Field(description="Subject.")
    state: IssueState = Field(description="open or closed.")
    labels: list[str] = Field(description="Its labels.")
    comments: list[str] = Field(description="Its comments, the oldest first.")


class Issues(BaseModel):
    """Issues without their comments."""

    issues: list[Issue] = Field(description="Id, title, text, state and labels; the newest first.")


class Changed(BaseModel):
    """The issue that was changed."""

    id: str = Field(description="Its id.")


@tool("tracker.list", effect="net", version=1)
async def list_issues(
    ctx: Context,
    state: Annotated[
        IssueState | None, Field(description="open or closed; null for all.")
    ] = "open",
) -> Issues:
    """List the issues of the bug tracker."""
    return Issues(issues=list(await ctx.service(Ports).tracker().list(state)))


@tool("tracker.show", effect="net", version=1)
async def show(ctx: Context, id: Id) -> FoundIssue:
    """Show one issue with its comments."""
    issue = await ctx.service(Ports).tracker().show(id)
    return FoundIssue(**issue.model_dump())


@tool("tracker.create", effect="external", version=1)
async def create(
    ctx: Context,
    title: Annotated[str, Field(description="A short title.", min_length=1, max_length=200)],
    text: Text,
    labels: Annotated[list[str], Field(description="Labels of the tracker.", max_length=20)] = [],  # noqa: B006
) -> FoundIssue:
    """Create an issue."""
    issue = await ctx.service(Ports).tracker().create(title, text, labels)
    return FoundIssue(**issue.model_dump())


@tool("tracker.comment", effect="external", version=1)
async def comment(ctx: Context, id: Id, text: Text) -> Changed:
    """Add a comment to an issue."""
    await ctx.service(Ports).tracker().comment(id, text)
    return Changed(id=id)


@tool("tracker.close", effect="external", version=1)
async def close(ctx: Context, id: Id) -> Changed:
    """Close an issue."""
    await ctx.service(Ports).tracker().close(id)
    return Changed(id=id)
