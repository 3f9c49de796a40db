"""`/api/prompts`: prompts for models, by their tags."""

from typing import Annotated

from fastapi import Depends, Query
from pydantic import BaseModel, ConfigDict, Field

from pipecatapp.api.access import known_caller
from pipecatapp.api.library.library import Id, WithLibrary
from pipecatapp.api.routing import api_router
from pipecatapp.application.library.service import PromptSummary

router = api_router("/api/prompts", dependencies=[Depends(known_caller)])


class PromptList(BaseModel):
    prompts: list[PromptSummary]


class NewPrompt(BaseModel):
    """Markdown with the tags in front."""

    model_config = ConfigDict(extra="forbid")

    document: str = Field(min_length=1, max_length=100_000)


@router.get("")
async def list_prompts(
    library: WithLibrary,
    q: Annotated[str, Query(max_length=1000)] = "",
    tag: Annotated[list[str], Query(max_length=50)] = [],  # noqa: B006
) -> PromptList:
    """Those that apply to the tags, and have one of the words of `q`, the best first."""
    return PromptList(prompts=library.prompts(q, tag))


@router.get("/{id}")
async def show_prompt(id: Id, library: WithLibrary) -> PromptSummary:
    return library.prompt(id)


@router.put("/{id}")
async def keep_prompt(id: Id, body: NewPrompt, library: WithLibrary) -> PromptSummary:
    """Store a prompt in the state directory; workflows that are started later use it."""
    return library.keep_prompt(id, body.document)


@router.delete("/{id}", status_code=204)
async def remove_prompt(id: Id, library: WithLibrary) -> None:
    """Remove a stored prompt; a shipped prompt with the same id is used again."""
    library.remove_prompt(id)
