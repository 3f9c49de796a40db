"""The tool that changes a plan by one more layer: to fit another request, or after a failure."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, Field

from pipecatapp.tools.plan.planned import (
    Json,
    Plan,
    PlanStep,
    calls_of,
    composed,
    composed_value,
    literal,
)
from pipecatapp.workflow import BY_AUTHOR, Context, tool


class Change(BaseModel):
    """A change of one step."""

    step: str = Field(description="The id of the step.")
    goal: str = Field(default="", description="Its new goal; empty keeps the goal.")
    note: str = Field(
        default="", description="Additional information for the execution of the step."
    )
    files: list[str] | None = Field(default=None, description="Its files instead; null keeps them.")
    drop: bool = Field(default=False, description="Whether the step is left out.")


class Revised(Plan):
    """The changed plan."""

    ignored: list[str] = Field(description="Steps that changes name and the plan does not have.")


@tool("plan.revise", effect="read", version=1)
async def revise(
    ctx: Context,
    base: Annotated[str, BY_AUTHOR, Field(description="The workflow that the layers change.")],
    changes: Annotated[list[Change], Field(description="The changes.")],
    layers: Annotated[list[str], BY_AUTHOR, Field(description="The layers so far.")] = [],  # noqa: B006
    note: Annotated[
        str, BY_AUTHOR, Field(description="The note for all steps if no change names a step.")
    ] = "",
) -> Revised:
    """Change the goals, files and notes of steps, or leave steps out, by one more layer.

    A change cannot add powers: it never sets what a step uses.
    """
    before = composed(ctx, base, layers, None)
    named = [(step_named(before.steps, one.step), one) for one in changes]
    wanted = [(step, one) for step, one in named if step is not None]
    if not wanted and note:
        value = composed_value(ctx, base, layers)
        noted = {path for path, node in calls_of(value) if "notes" in (node.get("with") or {})}
        steps = [step for step in before.steps if step.id in noted]
        wanted = [(step, Change(step=step.id, note=note)) for step in steps]
    layer = _layer(wanted)
    plan = composed(ctx, base, layers, layer or None)
    ignored = [one.step for step, one in named if step is None]
    return Revised(**plan.model_dump(), ignored=ignored)


def step_named(steps: Sequence[PlanStep], name: str) -> PlanStep | None:
    """The step with this id, or the only one whose id ends in it."""
    found = [step for step in steps if step.id == name]
    found = found or [step for step in steps if step.id.rpartition("/")[2] == name]
    return found[0] if len(found) == 1 else None


def _layer(wanted: Sequence[tuple[PlanStep, Change]]) -> Json:
    fields: Json = {}
    notes: dict[str, list[str]] = {}
    dropped: list[str] = []
    for step, change in wanted:
        if change.drop:
            dropped.append(step.id)
            continue
        if change.goal.strip():
            fields[f"{step.id}.with.goal"] = literal(change.goal)
        if change.files is not None:
            fields[f"{step.id}.with.files"] = [literal(name) for name in change.files]
        if change.note.strip():
            notes.setdefault(f"{step.id}.with.notes", []).append(literal(change.note))
    said = (("set", fields), ("append", notes), ("disable", list(dict.fromkeys(dropped))))
    return {name: value for name, value in said if value}
