"""`/api/keys`: issued keys for the page, as the gateway administers them, and their conversations.

Bodies and answers about keys are those of the gateway's `/api/keys`, which checks them.
"""

from typing import Annotated, Any

from fastapi import Body, Depends, Query
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from pipecatapp.api.owners import administrator
from pipecatapp.api.parts import WithParts
from pipecatapp.api.routing import api_router
from pipecatapp.application.people import ConversationSummary, OwnerSummary, PeopleService

router = api_router("/api/keys", dependencies=[Depends(administrator)])

Json = Annotated[dict[str, Any], Body()]


class Owners(BaseModel):
    owners: list[OwnerSummary]


class Conversations(BaseModel):
    conversations: list[ConversationSummary]


def people_of(parts: WithParts) -> PeopleService:
    return PeopleService(parts.directory, parts.runs.engine)


WithPeople = Annotated[PeopleService, Depends(people_of)]


@router.get("")
async def list_keys(people: WithPeople) -> JSONResponse:
    """The issued keys, their limits, and what each has used today."""
    return _answer(*await people.keys())


@router.get("/owners")
async def list_owners(people: WithPeople) -> Owners:
    """How many conversations each key has; the built-in key is the empty name."""
    return Owners(owners=people.owners())


@router.get("/conversations")
async def list_conversations(
    people: WithPeople, owner: str = "", limit: Annotated[int, Query(ge=1, le=500)] = 100
) -> Conversations:
    """The conversations of one key, the newest first."""
    return Conversations(conversations=people.conversations(owner, limit))


@router.post("")
async def add_key(key: Json, people: WithPeople) -> JSONResponse:
    """Issue a key; the answer has the secret, this once."""
    return _answer(*await people.add(key))


@router.put("/{name:path}")
async def limit_key(name: str, limits: Json, people: WithPeople) -> JSONResponse:
    """Give a key other limits in place of those that it has."""
    return _answer(*await people.limit(name, limits))


@router.delete("/{name:path}")
async def revoke_key(name: str, people: WithPeople) -> JSONResponse:
    """Close a key for good."""
    return _answer(*await people.revoke(name))


def _answer(status: int, body: Any) -> JSONResponse:
    return JSONResponse(body, status, headers={"cache-control": "no-store"})
