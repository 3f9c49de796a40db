"""What two runs have done differently, step by step."""

from typing import Any, Final

from pydantic import BaseModel

from pipecatapp.workflow import RunView, StepView

LOOKED_AT: Final = ("status", "tool", "model", "input", "output", "error")
"""What of a step says that it was another; times and tokens are always shown and never counted."""


class Side(BaseModel):
    """A step in one of the two runs."""

    status: str
    tool: str | None
    model: str | None
    input: Any
    output: Any
    error: str | None
    seconds: float | None
    tokens: int


class StepDifference(BaseModel):
    """A step that differs; a run that has no such step has null. `differs` names the fields."""

    path: str
    differs: list[str]
    before: Side | None
    after: Side | None


class RunDifference(BaseModel):
    """Two runs beside each other: what went in, what came out, and the steps that differ."""

    before: str
    after: str
    same: int
    """Steps that are alike in both."""
    inputs: dict[str, tuple[Any, Any]]
    outputs: dict[str, tuple[Any, Any]]
    steps: list[StepDifference]


def compared(one: RunView, other: RunView) -> RunDifference:
    """What the second run did otherwise than the first."""
    before = {step.path: _side(step) for step in one.steps}
    after = {step.path: _side(step) for step in other.steps}
    steps = [
        StepDifference(path=path, differs=differs, before=before.get(path), after=after.get(path))
        for path in dict.fromkeys([*before, *after])
        if (differs := _differs(before.get(path), after.get(path)))
    ]
    return RunDifference(
        before=one.id,
        after=other.id,
        same=len({*before, *after}) - len(steps),
        inputs=_pairs(one.inputs, other.inputs),
        outputs=_pairs(one.outputs or {}, other.outputs or {}),
        steps=steps,
    )


def _side(step: StepView) -> Side:
    told = {name: getattr(step, name) for name in (*LOOKED_AT, "seconds")}
    return Side(**told, tokens=step.tokens.prompt + step.tokens.completion)


def _differs(before: Side | None, after: Side | None) -> list[str]:
    if before is None or after is None:
        return ["only after" if before is None else "only before"]
    return [name for name in LOOKED_AT if getattr(before, name) != getattr(after, name)]


def _pairs(before: dict[str, Any], after: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    names = dict.fromkeys([*before, *after])
    pairs = {name: (before.get(name), after.get(name)) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
