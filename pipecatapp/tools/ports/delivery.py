"""Tools for the results of a CI, and for proposals to merge a branch."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from pipecatapp.tools.ports.opening import Ports
from pipecatapp.tools.ports.port import Check, Proposal
from pipecatapp.workflow import Context, tool


class Status(BaseModel):
    """The results for a commit."""

    state: Literal["success", "failure", "pending", "none"] = Field(
        description="failure if one failed, else pending if one is not done; none: nothing ran."
    )
    checks: list[Check] = Field(description="Name, state and address of each.")


class Proposed(BaseModel):
    """The proposal."""

    id: str = Field(description="Its id.")
    branch: str = Field(description="The branch.")
    into: str = Field(description="The branch to merge it into.")
    url: str = Field(description="Address of its page; empty if there is none.")


class Proposals(BaseModel):
    """All proposals."""

    proposals: list[Proposal] = Field(description="Id, branch, title and state of each.")


@tool("ci.status", effect="net", version=1)
async def status(
    ctx: Context,
    commit: Annotated[str, Field(description="The commit.", min_length=1, max_length=200)],
) -> Status:
    """Show the CI results of a commit."""
    checks = list(await ctx.service(Ports).ci().status(commit))
    states = {check.state for check in checks}
    for state in ("failure", "pending", "success"):
        if state in states:
            return Status(state=state, checks=checks)
    return Status(state="none", checks=[])


@tool("scm.propose", effect="external", version=1)
async def propose(
    ctx: Context,
    branch: Annotated[str, Field(description="A branch that was pushed.", min_length=1)],
    title: Annotated[str, Field(description="A short title.", min_length=1, max_length=200)],
    into: Annotated[str, Field(description="The branch to merge it into.")] = "main",
    text: Annotated[str, Field(description="Changes and their reason.", max_length=20000)] = "",
) -> Proposed:
    """Propose to merge a branch, such as by a pull request."""
    proposal = await ctx.service(Ports).scm().propose(branch, into, title, text)
    return Proposed(id=proposal.id, branch=proposal.branch, into=proposal.into, url=proposal.url)


@tool("scm.proposals", effect="net", version=1)
async def proposals(ctx: Context) -> Proposals:
    """List the proposals to merge branches."""
    return Proposals(proposals=list(await ctx.service(Ports).scm().proposals()))
