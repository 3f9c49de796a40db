"""`/api/home`: join a Home Assistant, leave it, and show whether both directions work."""

from fastapi import Depends
from pydantic import BaseModel, ConfigDict, Field

from pipecatapp.api.owners import administrator
from pipecatapp.api.parts import WithParts
from pipecatapp.api.routing import api_router
from pipecatapp.application.home import HomeStatus

router = api_router("/api/home", dependencies=[Depends(administrator)])


class Join(BaseModel):
    """`secret` is the name of the stored secret with a long-lived token of Home Assistant."""

    model_config = ConfigDict(extra="forbid")

    url: str = Field(min_length=1, max_length=2000)
    secret: str = Field(min_length=1, max_length=200)
    hearth_url: str = Field("", max_length=2000)


class Left(BaseModel):
    removed: list[str]


@router.get("")
async def show_home(parts: WithParts) -> HomeStatus:
    """The Home Assistant that is joined, its devices, and what does not work."""
    return await parts.home.status()


@router.post("")
async def join_home(body: Join, parts: WithParts) -> HomeStatus:
    """Connect a Home Assistant in both directions; a failure leaves nothing behind."""
    return await parts.home.join(body.url, body.secret, body.hearth_url)


@router.delete("")
async def leave_home(parts: WithParts, *, force: bool = False) -> Left:
    """Remove what the join has made. `force`: also if Home Assistant does not answer."""
    return Left(removed=await parts.home.leave(force=force))
