"""The tool that turns a planner's answers into a plan, level by level."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from pipecatapp.tools.files.place import inside, workspace
from pipecatapp.tools.memory.tokens import estimated
from pipecatapp.tools.plan.planned import CONTEXTS, Json, Plan, composed, literal, node_id
from pipecatapp.workflow import BY_AUTHOR, Context, ToolFailed, tool

LARGEST_FILE: Final = 1 << 20
"""Bytes of a file that are counted; a larger one fits no budget."""


class Kind(BaseModel):
    """The template of a step of one kind; a document defines it, never a model."""

    model_config = ConfigDict(extra="forbid")

    use: str = Field(description="The tool or workflow that such a step uses.")
    given: Json = Field(default={}, alias="with", description="Inputs that are the same for all.")
    inputs: list[str] = Field(default=[], description="Inputs of the plan that it is given.")
    takes: list[Literal["goal", "files", "notes", "contexts"]] = Field(
        default=["goal", "files", "notes"],
        description="Fields of the planned step that are passed to it.",
    )


class Wanted(BaseModel):
    """A step as a planner wants it."""

    id: str = Field(description="A short name.")
    goal: str = Field(description="Its goal, as a full sentence.")
    kind: str = Field(default="", description="One of the kinds; empty: the first of them.")
    files: list[str] = Field(default=[], description="The files that it reads and changes.")
    leaf: bool = Field(default=True, description="Whether it is simple enough to be done at once.")


class Answer(BaseModel):
    """A planner's answer for one step: the steps that it consists of."""

    steps: list[Wanted]


class KnownStep(Wanted):
    """A step of the plan so far."""

    parent: str = Field(description="The id of the step that it is a part of; empty at the top.")
    depth: int = Field(description="1 for a step at the top.")


class OpenStep(BaseModel):
    """A step that is to be split further."""

    id: str
    goal: str
    files: list[str]


class Expanded(Plan):
    """A plan, and what of it is still to be split."""

    known: list[KnownStep] = Field(description="All steps so far, for the next call.")
    open: list[OpenStep] = Field(description="The steps to split next.")


@tool("plan.expand", effect="read", version=1, workspace=True)
async def expand(
    ctx: Context,
    base: Annotated[
        str, BY_AUTHOR, Field(description="The workflow without steps that gets them.")
    ],
    kinds: Annotated[
        dict[str, Kind],
        BY_AUTHOR,
        Field(description="The kinds of steps by name; no step can use anything else."),
    ],
    answers: Annotated[
        list[Answer], Field(description="The planner's answers, one for each step of `open`.")
    ],
    open: Annotated[
        list[OpenStep], Field(description="The steps that were split; empty: the whole task.")
    ] = [],  # noqa: B006
    known: Annotated[
        list[KnownStep], Field(description="The steps of the plan before these answers.")
    ] = [],  # noqa: B006
    budget: Annotated[
        int, BY_AUTHOR, Field(description="Tokens that the files of a leaf may have.", ge=1)
    ] = 4000,
    max_steps: Annotated[int, BY_AUTHOR, Field(description="Steps at most.", ge=1, le=200)] = 30,
    max_depth: Annotated[
        int, BY_AUTHOR, Field(description="Levels of steps at most.", ge=1, le=8)
    ] = 3,
) -> Expanded:
    """Turn the steps that a planner names into a layer of a workflow, within bounds.

    A step is done at once if the planner says so and its files fit the budget, or at the last
    level; the others are listed in `open`. A plan that is outside the bounds is refused with its
    problems, and the plan before it stays.
    """
    parents = open or [OpenStep(id="", goal="", files=[])]
    if len(answers) != len(parents):
        raise ToolFailed(f"There are {len(answers)} answers for {len(parents)} steps.")
    every = [*known, *_added(known, parents, answers)]
    problems = _problems(every, known, kinds, max_steps)
    plan = composed(ctx, base, [], None if problems else {"add": _nodes(every, kinds)})
    problems += plan.problems
    if problems:
        again = Plan(problems=problems, base=base, layer="", layers=[], document="", steps=[])
        return Expanded(**again.model_dump(), known=known, open=open)
    split = {step.parent for step in every}
    root = workspace(ctx)
    left = [
        OpenStep(id=step.id, goal=step.goal, files=step.files)
        for step in every
        if step.id not in split
        and step.depth < max_depth
        and not (step.leaf and await asyncio.to_thread(_fits, root, step.files, budget))
    ]
    return Expanded(**plan.model_dump(), known=every, open=left)


def _added(
    known: Sequence[KnownStep], parents: Sequence[OpenStep], answers: Sequence[Answer]
) -> list[KnownStep]:
    """The steps of the answers with ids that are distinct in the whole plan."""
    depth = {"": 0} | {step.id: step.depth for step in known}
    added: list[KnownStep] = []
    for parent, answer in zip(parents, answers, strict=True):
        if parent.id not in depth:
            raise ToolFailed(f"The plan has no step {parent.id!r}.")
        for wanted in answer.steps:
            taken = [step.id for step in (*known, *added)]
            facts = wanted.model_dump() | {"id": node_id(wanted.id, taken)}
            added.append(KnownStep(**facts, parent=parent.id, depth=depth[parent.id] + 1))
    return added


def _problems(
    every: Sequence[KnownStep],
    known: Sequence[KnownStep],
    kinds: Mapping[str, Kind],
    most: int,
) -> list[str]:
    problems = [
        f"The step {step.id!r} has the kind {step.kind!r}; use one of {', '.join(kinds)}."
        for step in every
        if step.kind and step.kind not in kinds
    ]
    problems += [f"The step {step.id!r} has no goal." for step in every if not step.goal.strip()]
    if len(every) == len(known):
        problems.append("There are no steps.")
    if len(every) > most:
        problems.append(f"The plan has {len(every)} steps, and {most} are allowed: merge some.")
    return problems


def _nodes(every: Sequence[KnownStep], kinds: Mapping[str, Kind]) -> list[Json]:
    """The additions of a layer: each step at the top, with all that it consists of."""
    return [{"node": _node(step, every, kinds)} for step in every if not step.parent]


def _node(step: KnownStep, every: Sequence[KnownStep], kinds: Mapping[str, Kind]) -> Json:
    inner = [_node(one, every, kinds) for one in every if one.parent == step.id]
    head: Json = {"id": step.id, "about": literal(step.goal)}
    if inner:
        return {**head, "steps": inner}
    kind = kinds[step.kind or next(iter(kinds))]
    planned: Json = {
        "goal": literal(step.goal),
        "files": [literal(name) for name in step.files],
        "notes": [],
        CONTEXTS: [],
    }
    given: Json = {name: _written(value) for name, value in kind.given.items()}
    given |= {name: f"{{{{ inputs.{name} }}}}" for name in kind.inputs}
    given |= {name: planned[name] for name in kind.takes}
    return {**head, "use": kind.use, "with": given}


def _written(value: Any) -> Any:
    """Return a value as written in a document; its texts are not expressions."""
    if isinstance(value, str):
        return literal(value)
    if isinstance(value, list):
        return [_written(one) for one in value]
    if isinstance(value, dict):
        return {name: _written(one) for name, one in value.items()}
    return value


def _fits(root: Path, files: Sequence[str], budget: int) -> bool:
    """Whether the files together have no more tokens than the budget; those to be created count
    nothing.
    """
    used = 0
    for name in files:
        path = root / inside(root, name)
        if path.is_file():
            if path.stat().st_size > LARGEST_FILE:
                return False
            used += estimated(path.read_text(encoding="utf-8", errors="replace"))
    return used <= budget
