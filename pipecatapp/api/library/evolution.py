"""`/api/evolution`: campaigns that improve prompts, their proposals, and what is live of them."""

from typing import Annotated

from fastapi import Depends, Request
from pydantic import BaseModel, ConfigDict, Field

from pipecatapp.api.library.library import Id
from pipecatapp.api.owners import administrator
from pipecatapp.api.parts import WithParts
from pipecatapp.api.routing import api_router
from pipecatapp.application.library.campaigns import (
    CampaignCost,
    CampaignOrder,
    CampaignRunner,
    CampaignState,
)
from pipecatapp.application.library.promotion_records import Promotion
from pipecatapp.application.library.promotions import (
    CampaignArchive,
    CampaignList,
    PromotionService,
)

router = api_router("/api/evolution", dependencies=[Depends(administrator)])


def promotions_of(request: Request, parts: WithParts) -> PromotionService:
    """Return the campaigns of this instance."""
    return PromotionService(parts.runs, request.app.state.directory.root)


WithPromotions = Annotated[PromotionService, Depends(promotions_of)]


def runner_of(request: Request) -> CampaignRunner:
    """Return what runs the campaigns of this instance."""
    runner = request.app.state.campaigns
    assert isinstance(runner, CampaignRunner)
    return runner


def address_of(request: Request) -> str:
    """Return where the process of a campaign reaches this service: where it listens, unless the
    settings name an address.
    """
    if request.app.state.own_url is not None:
        return str(request.app.state.own_url)
    host, port = request.scope["server"]
    return f"{request.scope['scheme']}://{host}:{port}"


WithRunner = Annotated[CampaignRunner, Depends(runner_of)]
OwnAddress = Annotated[str, Depends(address_of)]


class Campaigns(CampaignList):
    """`states`: the state of each campaign, by its name."""

    states: dict[str, CampaignState]


class StartedCampaign(BaseModel):
    campaign: str


class Confirmation(BaseModel):
    """`by` is the person that has read the evidence and confirms the promotion."""

    model_config = ConfigDict(extra="forbid")

    by: str = Field(min_length=1, max_length=200)


@router.get("")
def list_campaigns(promotions: WithPromotions, runner: WithRunner) -> Campaigns:
    """All campaigns, the newest first, with their states, and the promoted prompts."""
    found = promotions.campaigns()
    names = [str(one.get("campaign")) for one in found.campaigns]
    return Campaigns(**dict(found), states={name: runner.state(name) for name in names})


@router.post("/estimate")
async def estimate(body: CampaignOrder, runner: WithRunner, address: OwnAddress) -> CampaignCost:
    """Estimate the cost of a campaign; nothing is run or written."""
    return await runner.estimate(body, address)


@router.post("", status_code=201)
async def start(body: CampaignOrder, runner: WithRunner, address: OwnAddress) -> StartedCampaign:
    """Start a campaign in a process of this instance; one runs at a time."""
    return StartedCampaign(campaign=await runner.start(body, address))


@router.post("/{id}/pause", status_code=202)
async def pause(id: Id, runner: WithRunner) -> None:
    """End the process of a campaign; it goes on from its files with `resume`."""
    await runner.pause(id)


@router.post("/{id}/resume", status_code=202)
async def resume(id: Id, runner: WithRunner, address: OwnAddress) -> None:
    """Go on with a paused campaign."""
    await runner.resume(id, address)


@router.post("/{id}/stop", status_code=202)
async def stop(id: Id, runner: WithRunner) -> None:
    """End a campaign for ever; what it found stays."""
    await runner.stop(id)


@router.get("/{id}")
def show_campaign(id: Id, promotions: WithPromotions) -> CampaignArchive:
    """One campaign with its candidates, the gate's pairs and the proposal."""
    return promotions.archive(id)


@router.post("/{id}/promote", status_code=201)
async def promote(id: Id, body: Confirmation, promotions: WithPromotions) -> Promotion:
    """Make the proposed prompt live; runs that start from now on use it."""
    return promotions.promote(id, by=body.by)


@router.delete("/promotions/{id}", status_code=204)
async def roll_back(id: Id, promotions: WithPromotions) -> None:
    """Remove the promoted version of a prompt; the stored one is live again."""
    promotions.roll_back(id)
