"""`/api/evolution`: campaigns that improve prompts, their proposals, and what is live of them."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, ConfigDict, Field

from pipecatapp.api.access import known_caller
from pipecatapp.api.library.library import Id
from pipecatapp.api.parts import WithParts
from pipecatapp.application.library.promotion_records import Promotion
from pipecatapp.application.library.promotions import (
    CampaignArchive,
    CampaignList,
    PromotionService,
)

router = APIRouter(prefix="/api/evolution", dependencies=[Depends(known_caller)])


def promotions_of(request: Request, parts: WithParts) -> PromotionService:
    """Return the campaigns of this instance."""
    return PromotionService(parts.runs, request.app.state.directory.root)


WithPromotions = Annotated[PromotionService, Depends(promotions_of)]


class Confirmation(BaseModel):
    """`by` is the person that has read the evidence and confirms the promotion."""

    model_config = ConfigDict(extra="forbid")

    by: str = Field(min_length=1, max_length=200)


@router.get("")
def list_campaigns(promotions: WithPromotions) -> CampaignList:
    """All campaigns, the newest first, and the promoted prompts that are live."""
    return promotions.campaigns()


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
