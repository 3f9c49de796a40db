"""Compare two runs: their documents by field, their steps by path, and their results."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel

from pipecatapp.workflow import Engine, Tokens
from pipecatapp.workflow.storage import Reader, RunRow, StepRow, seconds_between, spent

Json = dict[str, Any]

LOOKED_AT: Final = ("status", "tool", "model", "input", "output", "error")
"""Fields whose values make two steps differ; times and tokens are shown but not compared."""
_PLACE: Final = {"family", "path"}
"""Parts of a key that identify the position of a step: they differ between any two runs."""
_DERIVED: Final = {"id", "nodes", "waits", "reads", "hard"}
"""Fields of a node that follow from others, or are compared on their own."""
_WRITTEN: Final = {"given": "with", "when": "if"}
"""Names of fields in a document, where a plan has others."""


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


class FieldDifference(BaseModel):
    """A field of the document that differs; `path` is the node, empty for the workflow itself."""

    path: str
    field: str
    before: Any
    after: Any


class KeyDifference(BaseModel):
    """The first step whose cache key differs, so that it would have run in any case.

    `fields` are the parts of the key that differ: `input NAME`, `tool`, `returns`, `workspace`; or
    `only before` and `only after` for a step that one run does not have. `values` has both values
    of each input among them.
    """

    path: str
    fields: list[str]
    values: dict[str, tuple[Any, Any]]


class Totals(BaseModel):
    """The properties and totals of one of the two runs."""

    id: str
    workflow: str
    title: str
    status: str
    started: str
    seconds: float | None
    steps: int
    tokens: Tokens
    outputs: Json


class RunDifference(BaseModel):
    """The differences of two runs: inputs, outputs, and the steps that differ."""

    before: str
    after: str
    runs: tuple[Totals, Totals]
    same: int
    """Steps that are alike in both."""
    first: KeyDifference | None
    drifted: str | None
    """The first step with the same key and another output: a model, or a tool that reads
    external state."""
    document: list[FieldDifference]
    inputs: dict[str, tuple[Any, Any]]
    outputs: dict[str, tuple[Any, Any]]
    steps: list[StepDifference]


def compared(engine: Engine, one: str, other: str) -> RunDifference:
    """Return what the second run did otherwise than the first; raises `UnknownRun`."""
    return _Comparison(engine.ledger.read, engine.row(one), engine.row(other)).difference()


class _Comparison:
    """Compares two runs in the ledger. Values are decoded only if their columns differ."""

    def __init__(self, read: Reader, one: RunRow, other: RunRow) -> None:
        self._read, self._rows = read, (one, other)
        steps = [read.steps(row.id) for row in self._rows]
        self._spent = [spent(each) for each in steps]
        self._steps = [{step.path: step for step in each} for each in steps]
        self._paths = list(dict.fromkeys([*self._steps[0], *self._steps[1]]))

    def difference(self) -> RunDifference:
        one, other = self._rows
        before, after = self._totals(0), self._totals(1)
        steps = [found for path in self._paths if (found := self._step(path))]
        inputs = (self._read.value(row.inputs) for row in self._rows)
        return RunDifference(
            before=one.id,
            after=other.id,
            runs=(before, after),
            same=len(self._paths) - len(steps),
            first=self._first([step.path for step in steps]),
            drifted=self._drifted(steps),
            document=[] if one.plan == other.plan else self._document(),
            inputs=_pairs(*inputs),
            outputs=_pairs(before.outputs, after.outputs),
            steps=steps,
        )

    def _totals(self, which: int) -> Totals:
        row = self._rows[which]
        return Totals(
            id=row.id,
            workflow=row.workflow,
            title=row.title,
            status=row.status,
            started=row.started,
            seconds=None if row.ended is None else seconds_between(row.started, row.ended),
            steps=len(self._steps[which]),
            tokens=Tokens(
                prompt=row.prompt_tokens, completion=row.completion_tokens, cost=row.cost
            ),
            outputs=self._read.value(row.outputs) or {},
        )

    def _pair(self, path: str) -> tuple[StepRow | None, StepRow | None]:
        return self._steps[0].get(path), self._steps[1].get(path)

    def _step(self, path: str) -> StepDifference | None:
        before, after = self._pair(path)
        if before is None or after is None:
            differs = ["only after" if before is None else "only before"]
        else:
            differs = [name for name in LOOKED_AT if self._differ(before, after, name)]
        if not differs:
            return None
        return StepDifference(
            path=path, differs=differs, before=self._side(before, 0), after=self._side(after, 1)
        )

    def _differ(self, before: StepRow, after: StepRow, name: str) -> bool:
        """Return whether a field differs; equal values may be stored as different texts, and a
        reused step has no model.
        """
        columns = [getattr(step, name) for step in (before, after)]
        if name == "model" and None in columns:
            return False
        if columns[0] == columns[1] or name not in ("input", "output"):
            return bool(columns[0] != columns[1])
        return bool(self._read.value(columns[0]) != self._read.value(columns[1]))

    def _side(self, step: StepRow | None, which: int) -> Side | None:
        if step is None:
            return None
        tokens = self._spent[which][step.path]
        return Side(
            status=step.status,
            tool=step.tool,
            model=step.model,
            input=self._read.value(step.input),
            output=self._read.value(step.output),
            error=step.error,
            seconds=None if step.ended is None else seconds_between(step.started, step.ended),
            tokens=tokens.prompt + tokens.completion,
        )

    def _first(self, paths: Sequence[str]) -> KeyDifference | None:
        for path in paths:
            before, after = self._pair(path)
            if before is None or after is None:
                missing = "only after" if before is None else "only before"
                return KeyDifference(path=path, fields=[missing], values={})
            if fields := self._key_fields(before, after):
                inputs = [self._read.value(step.input) or {} for step in (before, after)]
                names = [name.removeprefix("input ") for name in fields]
                values = {
                    name: (inputs[0].get(name), inputs[1].get(name))
                    for name in names
                    if any(name in each for each in inputs)
                }
                return KeyDifference(path=path, fields=fields, values=values)
        return None

    def _key_fields(self, before: StepRow, after: StepRow) -> list[str]:
        """The parts in which the keys of two steps differ, sorted; of a step without a key its
        tool and inputs.
        """
        if before.key is None or after.key is None:
            parts = [self._parts(step) for step in (before, after)]
        else:
            parts = [self._read.value(step.key) for step in (before, after)]
        names = sorted({*parts[0], *parts[1]} - _PLACE)
        return [name for name in names if parts[0].get(name) != parts[1].get(name)]

    def _parts(self, step: StepRow) -> Json:
        value = self._read.value(step.input)
        inputs = value if isinstance(value, dict) else {"": value}
        return {"tool": step.tool} | {f"input {name}": each for name, each in inputs.items()}

    def _drifted(self, steps: Sequence[StepDifference]) -> str | None:
        for step in steps:
            before, after = self._pair(step.path)
            if before is None or after is None or "output" not in step.differs:
                continue
            if before.tool is not None and not self._key_fields(before, after):
                return step.path
        return None

    def _document(self) -> list[FieldDifference]:
        """The fields of both plans that differ, in the order of the first."""
        before, after = (
            dict(_fields(self._read.value(row.plan), row.workflow)) for row in self._rows
        )
        return [
            FieldDifference(path=path, field=field, before=old, after=new)
            for path, field in dict.fromkeys([*before, *after])
            if (old := before.get((path, field))) != (new := after.get((path, field)))
        ]


def _fields(plan: Json, workflow: str) -> Iterator[tuple[tuple[str, str], Any]]:
    """The fields of a plan by node and name; those of workflows that it uses below their name."""
    for name, value in plan["limits"].items():
        yield ("", f"limits.{name}"), value
    for id, body in plan["bodies"].items():
        top = "" if id == workflow else f"workflow/{id}"
        for name in ("inputs", "outputs"):
            for key, value in body[name].items():
                yield (top, f"{name}.{key}"), value
        yield (top, "allow"), body.get("allow")
        yield from _nodes(body["nodes"], top)


def _nodes(nodes: Sequence[Json], parent: str) -> Iterator[tuple[tuple[str, str], Any]]:
    for node in nodes:
        path = f"{parent}/{node['id']}" if parent else str(node["id"])
        for name, value in node.items():
            field = _WRITTEN.get(name, name)
            if name in _DERIVED:
                continue
            if isinstance(value, dict) and value:
                yield from (((path, f"{field}.{key}"), each) for key, each in value.items())
            elif value not in (None, "", [], {}):
                yield (path, field), value
        yield from _nodes(node["nodes"], path)


def _pairs(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    names = dict.fromkeys([*before, *after])
    pairs = {name: (before.get(name), after.get(name)) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
