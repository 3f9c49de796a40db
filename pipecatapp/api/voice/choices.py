"""`GET /api/voice`: what a person can choose before a conversation by voice."""

from typing import Annotated, Any

from fastapi import Depends, Request
from pydantic import BaseModel

from pipecatapp.api.access import known_caller
from pipecatapp.api.chat_models import chat_models
from pipecatapp.api.parts import Parts, WithParts
from pipecatapp.api.routing import api_router
from pipecatapp.api.voice.trust import ADDRESS
from pipecatapp.application.registry import EXPERT
from pipecatapp.voice.studio import NoSpeech, Studio

router = api_router("/api/voice", dependencies=[Depends(known_caller)])


class Choice(BaseModel):
    """`id` is what a hello names; `about` is what a person reads."""

    id: str
    about: str


class Choices(BaseModel):
    """The reason why voice is not available, or null; models and voices; whether transcripts are
    kept.

    `authority` is the address of the certificate of the authority, or null.
    """

    trouble: str | None
    models: list[Choice]
    voices: list[Choice]
    kept: bool
    authority: str | None


def studio_of(request: Request) -> Studio:
    studio = request.app.state.studio
    assert isinstance(studio, Studio)
    return studio


@router.get("")
async def show_choices(parts: WithParts, studio: Annotated[Studio, Depends(studio_of)]) -> Choices:
    """Experts are offered as what the agent thinks with, workflows as others to talk to."""
    trouble, voices = None, []
    try:
        voices = [voice(one) for one in await studio.voices()]
    except NoSpeech as error:
        trouble = str(error)
    return Choices(
        trouble=trouble,
        models=await models(parts),
        voices=voices,
        kept=studio.keeps,
        authority=None if studio.ca_file is None else ADDRESS,
    )


async def models(parts: Parts) -> list[Choice]:
    """The agent, the agent with each expert that works, and every other conversation."""
    return [
        Choice(
            id=one.id, about=f"Agent with {one.about}" if one.id.startswith(EXPERT) else one.about
        )
        for one in await chat_models(parts)
    ]


def voice(told: dict[str, Any]) -> Choice:
    """`{"id": "en-us-joe", "language": "en"}` as a person reads it."""
    return Choice(id=str(told["id"]), about=f"{told['id']} ({told['language']})")
