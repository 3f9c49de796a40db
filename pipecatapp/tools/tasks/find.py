"""The tool that finds stored tasks like a request."""

import re
from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import BaseModel, Field

from pipecatapp.records.tasks import StoredTask, StoredTasks
from pipecatapp.tools.plan.planned import PlanStep, composed
from pipecatapp.workflow import BY_AUTHOR, Context, Documents, Ledger, Written, tool

SHORTEST: Final = 4
"""Letters of a word that counts: shorter ones are mostly articles and prepositions."""
LOOKED_AT: Final = 50
"""Stored tasks that are compared, the best by full-text search."""
_WORD: Final = re.compile(r"\w+")


class FoundTask(BaseModel):
    """A stored task and how well it fits."""

    id: str
    version: int
    about: str
    tags: list[str]
    score: float = Field(description="The share of the request's words that the task has.")
    steps: list[PlanStep] = Field(description="Its steps.")


class FoundTasks(BaseModel):
    """The tasks that fit."""

    tasks: list[FoundTask] = Field(
        description="Id, words, score and steps of each, the best first; empty where none fits."
    )


@tool("task.find", effect="read", version=1)
async def find(
    ctx: Context,
    text: Annotated[str, Field(description="Description of the task.", min_length=1)],
    tags: Annotated[list[str], Field(description="Words that describe the kind of task.")] = [],  # noqa: B006
    extends: Annotated[
        str, BY_AUTHOR, Field(description="Only tasks that extend this workflow; empty: all.")
    ] = "",
    limit: Annotated[int, Field(description="Tasks at most.", ge=1, le=20)] = 3,
) -> FoundTasks:
    """Find stored tasks that are like a request, with a score from 0 to 1 for each.

    The score is the share of the distinct words of the request and the tags, of four letters or
    more, that the task's id, tags, description or steps have.
    """
    asked = words(f"{text} {' '.join(tags)}")
    written = ctx.service(Documents).written
    stored = StoredTasks(ctx.service(Ledger)).find(" ".join(sorted(asked)), limit=LOOKED_AT)
    fitting = [task for task in stored if not extends or _extends(task.id, extends, written)]
    scored = [(score(task, asked), task) for task in fitting if asked]
    # A stable sort: of equal scores, the full-text rank decides.
    scored.sort(key=lambda pair: -pair[0])
    return FoundTasks(
        tasks=[_found(ctx, task, rate) for rate, task in scored[:limit] if task.id in written]
    )


def words(text: str) -> set[str]:
    """The words of a text that count, in lower case and without a plural s."""
    found = {word.lower() for word in _WORD.findall(text.replace("_", " "))}
    return {word.rstrip("s") for word in found if len(word) >= SHORTEST}


def score(task: StoredTask, asked: set[str]) -> float:
    """The share of the words that a task has."""
    known = words(f"{task.id} {' '.join(task.tags)} {task.about} {task.document}")
    return round(len(asked & known) / len(asked), 3)


def _extends(id: str, base: str, written: Mapping[str, Written]) -> bool:
    seen: set[str] = set()
    while id in written and id not in seen:
        seen.add(id)
        id = str(written[id].value.get("extends", ""))
        if id == base:
            return True
    return False


def _found(ctx: Context, task: StoredTask, rate: float) -> FoundTask:
    return FoundTask(
        id=task.id,
        version=task.version,
        about=task.about,
        tags=list(task.tags),
        score=rate,
        steps=composed(ctx, task.id, [], None).steps,
    )
