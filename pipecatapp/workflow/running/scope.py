"""A scope at one place of a run: what of it has ended, and what the names in it stand for."""

from collections import ChainMap
from collections.abc import Callable, Mapping
from typing import Any, Literal

from pipecatapp.workflow.document.shapes import ShapeError, shape
from pipecatapp.workflow.expressions import (
    ExpressionError,
    Missing,
    expression,
    expressions,
    render,
)
from pipecatapp.workflow.plan import Body, PlanNode
from pipecatapp.workflow.tool import Json

Settled = Literal["done", "skipped", "unmet"]
"""`unmet`: skipped because its own `if` was false, so its `else` list runs."""


class Scope:
    """A scope at one place of the run: what of it has ended, and what the names in it stand for."""

    def __init__(
        self,
        path: str,
        nodes: tuple[PlanNode, ...],
        around: "Scope | None",
        *,
        given: Json,
        stream: bool,
        stack: tuple[str, ...],
        ended: Callable[["Scope"], None],
    ) -> None:
        self.path, self.nodes, self.stream, self.stack, self.ended = (
            path,
            nodes,
            stream,
            stack,
            ended,
        )
        self.around = around
        self.values: Json = {}
        self.names: ChainMap[str, Any] = (
            around.names.new_child(self.values) if around else ChainMap(self.values, given)
        )
        self.state: dict[str, Settled] = {}
        self.waits = {node.id: set(node.waits) for node in nodes}
        self.readers: dict[str, list[PlanNode]] = {}
        for node in nodes:
            for name in node.waits:
                self.readers.setdefault(name, []).append(node)

    def at(self, node: PlanNode) -> str:
        return f"{self.path}/{node.id}" if self.path else node.id

    def settle(self, node: PlanNode, state: Settled, value: Any) -> list[PlanNode]:
        """Note how a node ended; gives the nodes that are ready now."""
        self.state[node.id], self.values[node.id] = state, value
        readers = self.readers.get(node.id, [])
        for reader in readers:
            self.waits[reader.id].discard(node.id)
        return [reader for reader in readers if not self.waits[reader.id]]

    def ended_as(self, name: str) -> Settled | None:
        """How the node of that name ended, here or around here."""
        return self.state.get(name) or (self.around.ended_as(name) if self.around else None)

    def results(self) -> Json:
        """What the scope gives: the outputs of those of its nodes that ran."""
        return {name: self.values[name] for name, state in self.state.items() if state == "done"}


def checked_inputs(body: Body, given: Mapping[str, Any]) -> Json:
    """The inputs of a workflow, typed and with defaults; raises `ShapeError` naming the input."""
    unknown = [name for name in given if name not in body.inputs]
    missing = [
        name for name, wanted in body.inputs.items() if wanted.required and name not in given
    ]
    if unknown or missing:
        known = ", ".join(body.inputs) or "none"
        wrong = [f"there is no input {name!r}" for name in unknown] + [
            f"the input {name!r} is missing" for name in missing
        ]
        raise ShapeError(f"{body.id}: {'; '.join(wrong)}. Its inputs: {known}")
    inputs: Json = {}
    for name, wanted in body.inputs.items():
        try:
            inputs[name] = (
                shape(wanted.type).check(given[name]) if name in given else wanted.default
            )
        except ShapeError as error:
            raise ShapeError(f"the input {name!r} of {body.id}: {error}") from error
    return inputs


def outputs_of(body: Body, names: Mapping[str, Any]) -> Json:
    """What a workflow gives; null for what only a skipped node could have given."""
    outputs: Json = {}
    for name, out in body.outputs.items():
        reads = [read for _, source in expressions(out.value) for read in expression(source).reads]
        skipped = any(
            not read.soft and isinstance(names.get(str(read.path[0])), Missing) for read in reads
        )
        try:
            outputs[name] = shape(out.type).check(None if skipped else render(out.value, names))
        except (ExpressionError, ShapeError) as error:
            raise type(error)(f"the output {name!r} of {body.id}: {error}") from error
    return outputs


def skipped(scope: Scope, node: PlanNode) -> tuple[Settled, str] | None:
    """Whether a node is skipped, and why.

    An `if` is evaluated only when everything it reads is there.
    """
    if node.unless is not None and scope.state[node.unless] != "unmet":
        return "skipped", f"it is the else of {node.unless!r}"
    for name in (*node.hard, *node.needs):
        if scope.ended_as(name) in ("skipped", "unmet"):
            return "skipped", f"{name!r} was skipped"
    met = render(node.when, scope.names)
    if not isinstance(met, bool):
        raise ExpressionError(f"`if` must give true or false, not {met!r:.80}")
    return None if met else ("unmet", "its `if` is false")
