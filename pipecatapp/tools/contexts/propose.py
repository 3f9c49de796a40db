"""The tool that turns contexts which a model asks for into a layer on a plan."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from pipecatapp.tools.contexts.merge import LONGEST_TEXT, MergedContext
from pipecatapp.tools.files.place import inside, workspace
from pipecatapp.tools.plan.planned import (
    CONTEXTS,
    Json,
    Plan,
    PlanStep,
    calls_of,
    composed,
    composed_value,
    literal,
    node_id,
    steps_of,
)
from pipecatapp.tools.plan.revise import step_named
from pipecatapp.tools.tasks.find import words
from pipecatapp.workflow import BY_AUTHOR, Context, tool

SHARED: Final = 0.5
"""The share of the words of a context that the goal of a step has if the context helps it."""


class ContextKind(BaseModel):
    """The template of a context of one kind; a document defines it, never a model."""

    model_config = ConfigDict(extra="forbid")

    use: str = Field(description="The tool that reads it; its output has the field `text`.")
    given: Json = Field(default={}, alias="with", description="Inputs that are the same for all.")
    subject: str = Field(default="", description="The input that is given the subject.")
    files: str = Field(default="", description="The input that is given the files.")


class WantedContext(BaseModel):
    """A context as a model wants it."""

    id: str = Field(description="A short name.")
    kind: str = Field(default="", description="One of the kinds; empty: the first of them.")
    subject: str = Field(description="Its content, in a few words.", min_length=1)
    files: list[str] = Field(default=[], description="The files that it reads.")
    helps: list[str] = Field(default=[], description="Ids of the steps that need it.")


class StepHelped(BaseModel):
    """A step that is given a context."""

    step: str = Field(description="Its id.")
    reason: str = Field(description="Why the context helps there.")


class ProposedContext(BaseModel):
    """A context that would be added."""

    id: str
    about: str
    steps: list[StepHelped] = Field(description="The steps that would be given it.")
    text: str = Field(description="Its text, or empty if it is not known yet.")


class Proposal(Plan):
    """The plan with further contexts."""

    contexts: list[ProposedContext] = Field(description="The additions, for a person.")
    ignored: list[str] = Field(description="Contexts that are left out, and why.")


@dataclass(frozen=True)
class _Addition:
    id: str
    about: str
    steps: list[StepHelped]
    node: Json
    output: str
    text: str = ""


@tool("context.propose", effect="read", version=1, workspace=True)
async def propose(
    ctx: Context,
    base: Annotated[str, BY_AUTHOR, Field(description="The workflow that the layers change.")],
    kinds: Annotated[
        dict[str, ContextKind],
        BY_AUTHOR,
        Field(description="The kinds of contexts by name; no context can use anything else."),
    ],
    wanted: Annotated[list[WantedContext], Field(description="The contexts that a model names.")],
    merged: Annotated[
        list[MergedContext], Field(description="Contexts of similar failures, for every step.")
    ] = [],  # noqa: B006
    layers: Annotated[list[str], BY_AUTHOR, Field(description="The layers so far.")] = [],  # noqa: B006
    limit: Annotated[int, BY_AUTHOR, Field(description="New contexts at most.", ge=1, le=50)] = 6,
) -> Proposal:
    """Add contexts before the steps of a plan by one more layer, for a person to accept.

    A context is also given to steps that the model has not named: those that have one of its
    files, or half of the words of its subject in their goal. Only steps with the input `contexts`
    are given any. A context without an existing file, or that helps no step, is left out.
    """
    value = composed_value(ctx, base, layers)
    fields = {
        path: list(node["with"][CONTEXTS])
        for path, node in calls_of(value)
        if CONTEXTS in (node.get("with") or {})
    }
    steps = [step for step in steps_of(value) if step.id in fields]
    ignored: list[str] = []
    root = workspace(ctx)
    additions = [_merged(context, steps) for context in merged if steps]
    for context in wanted:
        files = await asyncio.to_thread(_existing, root, context.files)
        found = _wanted(context, kinds, files, steps)
        if isinstance(found, str):
            ignored.append(f"{context.id}: {found}")
        else:
            additions.append(found)
    ignored += [f"{one.id}: {limit} contexts are allowed." for one in additions[limit:]]
    layer, proposed = _layer(additions[:limit], fields, _known(value))
    plan = composed(ctx, base, layers, layer)
    return Proposal(
        **plan.model_dump(), contexts=[] if plan.problems else proposed, ignored=ignored
    )


def _known(value: Mapping[str, object]) -> list[str] | None:
    """The ids of the contexts that a plan has; None if it has no scope for them."""
    nodes = value.get("steps")
    for node in nodes if isinstance(nodes, list) else []:
        if node["id"] == CONTEXTS:
            return [str(one["id"]) for one in node["steps"]]
    return None


def _existing(root: Path, names: Sequence[str]) -> list[str]:
    return [name for name in names if (root / inside(root, name)).is_file()]


def _wanted(
    context: WantedContext,
    kinds: Mapping[str, ContextKind],
    files: Sequence[str],
    steps: Sequence[PlanStep],
) -> _Addition | str:
    """A context as a node with the steps that it helps, or why it is left out."""
    name = context.kind or next(iter(kinds), "")
    if name not in kinds:
        return f"there is no kind {name!r}; use one of {', '.join(kinds)}."
    kind = kinds[name]
    if kind.files and not files:
        return "none of its files exists."
    helped = [
        StepHelped(step=step.id, reason=reason)
        for step in steps
        if (reason := _reason(context, files, step, steps))
    ]
    if not helped:
        return "it helps no step."
    given = dict(kind.given)
    if kind.files:
        given[kind.files] = [literal(file) for file in files]
    if kind.subject:
        given[kind.subject] = literal(context.subject)
    node = {"use": kind.use, "with": given}
    return _Addition(context.id, context.subject, helped, node, output="text")


def _reason(
    context: WantedContext, files: Sequence[str], step: PlanStep, steps: Sequence[PlanStep]
) -> str:
    """Why a context helps a step; empty if it does not."""
    if any(step_named(steps, name) == step for name in context.helps):
        return "The model names it."
    if shared := [file for file in files if file in step.files]:
        return f"It has the file {shared[0]}."
    subject = words(context.subject)
    common = sorted(subject & words(step.goal))
    if common and len(common) >= SHARED * len(subject):
        return f"Its goal has the words: {', '.join(common)}."
    return ""


def _merged(context: MergedContext, steps: Sequence[PlanStep]) -> _Addition:
    helped = [StepHelped(step=step.id, reason=context.about) for step in steps]
    node = {"use": "value", "with": {"value": literal(context.text, LONGEST_TEXT)}}
    return _Addition(context.id, context.about, helped, node, output="value", text=context.text)


def _layer(
    additions: Sequence[_Addition], fields: Mapping[str, list[str]], known: list[str] | None
) -> tuple[Json | None, list[ProposedContext]]:
    """The layer that adds contexts and gives them to steps, and the contexts by their new ids."""
    proposed: list[ProposedContext] = []
    nodes: list[Json] = []
    given = {path: list(texts) for path, texts in fields.items()}
    for one in additions:
        id = node_id(one.id, [*(known or ()), *(other.id for other in proposed)])
        about = literal(one.about)
        proposed.append(ProposedContext(id=id, about=one.about, steps=one.steps, text=one.text))
        nodes.append({"id": id, "about": about, "on_error": "continue", **one.node})
        for step in one.steps:
            text = f"{{{{ {CONTEXTS}.{id}.{one.output} | default('') }}}}"
            given[step.step].append(f"{about}:\n{text}")
    if not nodes:
        return None, []
    changed = {path: texts for path, texts in given.items() if texts != fields[path]}
    return {
        "add": list(_placed(nodes, new=known is None)),
        "set": {f"{path}.with.{CONTEXTS}": texts for path, texts in changed.items()},
    }, proposed


def _placed(nodes: Sequence[Json], *, new: bool) -> Iterator[Json]:
    """The additions of a layer: one scope before all steps, or nodes in the one that is there."""
    if new:
        about = "Contexts that help the steps."
        yield {"after": "", "node": {"id": CONTEXTS, "about": about, "steps": list(nodes)}}
    else:
        yield from ({"in": CONTEXTS, "node": node} for node in nodes)
