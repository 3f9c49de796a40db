"""The tool that finds stored prompts for a task."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Protocol

from pydantic import BaseModel, Field

from pipecatapp.workflow import Context, tool

SHOWN: Final = 300
"""Characters of a prompt in the text for a model."""


class StoredPrompt(Protocol):
    """A prompt of the library."""

    @property
    def id(self) -> str: ...
    @property
    def tags(self) -> Collection[str]: ...
    @property
    def text(self) -> str: ...


@dataclass(frozen=True)
class Prompts:
    """The library of prompts, for tools."""

    find: Callable[[str, Sequence[str]], Sequence[StoredPrompt]]
    """Return the prompts that apply to the tags and have one of the words, best first."""


class FoundPrompt(BaseModel):
    """A stored prompt."""

    id: str
    tags: list[str] = Field(description="The tags with which a node uses it: `prompt: [tags]`.")
    text: str


class FoundPrompts(BaseModel):
    """The prompts that fit a task."""

    prompts: list[FoundPrompt] = Field(description="The best first; empty if none fits.")
    text: str = Field(description="The tags and the beginning of each, for a model.")


@tool("prompt.find", effect="read", version=1)
async def find(
    ctx: Context,
    text: Annotated[
        str, Field(description="The task, in words that its prompt may have; empty for all.")
    ] = "",
    tags: Annotated[
        list[str],
        Field(description="Only prompts all of whose tags are among these; empty for any."),
    ] = [],  # noqa: B006
    limit: Annotated[int, Field(description="Prompts at most.", ge=1, le=50)] = 5,
) -> FoundPrompts:
    """Find prompts of the library that fit a task, to use them in a workflow."""
    found = ctx.service(Prompts).find(text, tags)[:limit]
    lines = [
        f"* prompt: [{', '.join(sorted(one.tags))}]: {' '.join(one.text.split())[:SHOWN]}"
        for one in found
    ]
    return FoundPrompts(
        prompts=[FoundPrompt(id=one.id, tags=sorted(one.tags), text=one.text) for one in found],
        text="\n".join(lines),
    )
