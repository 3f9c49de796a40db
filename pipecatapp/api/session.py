"""`/api/session`: log in with the key, ask whether one is logged in, log out."""

from typing import Annotated

from fastapi import Depends, Request
from pydantic import BaseModel, ConfigDict, SecretStr
from starlette.responses import Response

from pipecatapp.api.access import (
    SESSION_SECONDS,
    Access,
    access_of,
    cookie_name,
    known_caller,
    own_page_only,
    unknown_key,
)
from pipecatapp.api.routing import api_router

router = api_router("/api/session")


class Login(BaseModel):
    model_config = ConfigDict(extra="forbid")

    key: SecretStr


class Session(BaseModel):
    authenticated: bool


@router.get("", dependencies=[Depends(known_caller)])
async def show_session() -> Session:
    return Session(authenticated=True)


@router.post("", dependencies=[Depends(own_page_only)])
async def log_in(
    body: Login, request: Request, response: Response, access: Annotated[Access, Depends(access_of)]
) -> Session:
    """Answer with the cookie of a session of thirty days."""
    if not access.opens(body.key.get_secret_value().encode()):
        await access.punish_wrong_key()
        raise unknown_key()
    response.set_cookie(
        cookie_name(request),
        access.new_session(),
        max_age=SESSION_SECONDS,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return Session(authenticated=True)


@router.delete("", dependencies=[Depends(own_page_only)])
async def log_out(request: Request, response: Response) -> Session:
    """Take the cookie back; a session ends for good when the key is changed."""
    response.delete_cookie(cookie_name(request), httponly=True, samesite="strict")
    return Session(authenticated=False)
