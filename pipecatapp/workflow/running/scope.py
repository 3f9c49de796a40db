"""A scope at one position of a run: the states of its nodes, and the values of its names."""

from collections import ChainMap, Counter
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
from pipecatapp.workflow.ledger.journal import Begun
from pipecatapp.workflow.ledger.values import canonical
from pipecatapp.workflow.plan import Body, Jump, Plan, PlanNode
from pipecatapp.workflow.running.frames import Frame
from pipecatapp.workflow.tool import Effect, Json

Settled = Literal["done", "skipped", "unmet", "failed"]
"""`unmet`: skipped because its own `if` was false, so its `else` list runs."""

MISSED: frozenset[Settled | None] = frozenset({"skipped", "unmet", "failed"})
"""How nodes end of which there is nothing to read."""


class Scope:
    """A scope at one place of the run.

    `path` is its position in the run, `home` its position in the document, without visits.
    """

    def __init__(
        self,
        frame: Frame,
        home: str,
        nodes: tuple[PlanNode, ...],
        names: "ChainMap[str, Any]",
        *,
        around: "Scope | None" = None,
        stream: bool,
        stack: tuple[str, ...],
        grants: frozenset[Effect],
        plan: Plan,
    ) -> None:
        self.grants, self.plan = grants, plan
        self.frame, self.home, self.nodes = frame, home, nodes
        self.around, self.stream, self.stack = around, stream, stack
        self.values: Json = {}
        self.names: ChainMap[str, Any] = names.new_child(self.values)
        self.state: dict[str, Settled] = {}
        self.waits = {node.id: set(node.waits) for node in nodes}
        self.places = {node.id: index for index, node in enumerate(nodes)}
        self.visits: Counter[str] = Counter()
        """How often a jump has led back over a node."""
        self.jumps: Counter[str] = Counter()
        """How often a node has jumped back."""
        self.tries: Counter[str] = Counter()
        """How often the current visit of a node was repeated."""
        self.renewed: Counter[str] = Counter()
        """How often any visit of a node was repeated; these are not passes of a jump."""
        self.more: Counter[str] = Counter()
        """Jumps back beyond `max` that a person has permitted."""
        self.ended: Callable[[Scope], None] = lambda _scope: None
        self.passed: dict[str, str] = {}
        """Nodes that the next pass skips, with the jump that skips them."""
        self.before: Json | None = None
        """The outputs of the nodes at the last jump back."""
        self.readers: dict[str, list[PlanNode]] = {}
        for node in nodes:
            for name in node.waits:
                self.readers.setdefault(name, []).append(node)

    def at(self, node: PlanNode, later: int = 0) -> str:
        """Return the path of the current visit of a node: `fix/draft`, the next time
        `fix/draft#2`."""
        path = f"{self.frame.path}/{node.id}" if self.frame.path else node.id
        visit = self.visits[node.id] + 1 + later
        return f"{path}#{visit}" if visit > 1 else path

    def home_of(self, node: PlanNode) -> str:
        """Return the position of a node in the document."""
        return f"{self.home}/{node.id}" if self.home else node.id

    def names_at(self, node: PlanNode) -> "ChainMap[str, Any]":
        """Return the names that a node can read now."""
        if not node.again:
            return self.names
        visit = self.visits[node.id] - self.renewed[node.id]
        return self.names.new_child({"loop": loop_names(self.names, visit), "prev": self.before})

    def settle(self, node: PlanNode, state: Settled, value: Any) -> list[PlanNode]:
        """Record the end of a node; returns the nodes that are now ready."""
        self.state[node.id], self.values[node.id] = state, value
        readers = self.readers.get(node.id, [])
        for reader in readers:
            self.waits[reader.id].discard(node.id)
        return [reader for reader in readers if not self.waits[reader.id]]

    def is_back(self, node: PlanNode, jump: Jump) -> bool:
        """Whether a jump leads to what has been."""
        return self.places[jump.to] <= self.places[node.id]

    def jump_back(self, node: PlanNode, jump: Jump) -> PlanNode:
        """Reset the nodes from the target to here; returns the next node."""
        self.before = self.results()
        self.jumps[node.id] += 1
        start, end = self.places[jump.to], self.places[node.id]
        for other in self.nodes[start : end + 1]:
            self.visits[other.id] += 1
            self.tries[other.id] = 0
            self.state.pop(other.id, None)
            self.values.pop(other.id, None)
            self.waits[other.id] = set(other.waits) if other.id != jump.to else set()
        return self.nodes[start]

    def renew(self, node: PlanNode) -> None:
        """Repeat a failed node, under a new path."""
        for counter in (self.visits, self.tries, self.renewed):
            counter[node.id] += 1

    def pass_over(self, node: PlanNode, jump: Jump) -> None:
        """Skip the nodes between the current node and a later one."""
        for other in self.nodes[self.places[node.id] + 1 : self.places[jump.to]]:
            self.passed[other.id] = node.id

    def ended_as(self, name: str) -> Settled | None:
        """How the node of that name ended, here or around here."""
        return self.state.get(name) or (self.around.ended_as(name) if self.around else None)

    def results(self) -> Json:
        """Return the outputs of the scope: those of its nodes that ran and have one."""
        return {
            node.id: self.values[node.id]
            for node in self.nodes
            if self.state.get(node.id) == "done" and node.kind != "goto"
        }


def loop_names(around: Mapping[str, Any], index: int) -> Json:
    """Return the value of `loop` in an iteration."""
    return {"index": index, "first": index == 0, "parent": around.get("loop")}


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
    """Return the outputs of a workflow; null for a value that needs a skipped node."""
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


def unmet(node: PlanNode, names: Mapping[str, Any], output: Any) -> str | None:
    """The reason of the first condition of `check` that an output does not meet."""
    here = ChainMap({node.id: output}, dict(names)) if node.check else {}
    for reason, condition in node.check.items():
        if not render(condition, here):
            return f"check: {reason}"
    return None


def skipped(scope: Scope, node: PlanNode) -> tuple[Settled, str] | None:
    """Whether a node is skipped, and why.

    An `if` is evaluated only when everything it reads is there.
    """
    if by := scope.passed.pop(node.id, None):
        return "skipped", f"{by!r} leads past it"
    if node.unless is not None and scope.state[node.unless] != "unmet":
        return "skipped", f"it is the else of {node.unless!r}"
    for name in (*node.hard, *node.needs):
        if (state := scope.ended_as(name)) in MISSED:
            return "skipped", f"{name!r} {'failed' if state == 'failed' else 'was skipped'}"
    met = render(node.when, scope.names_at(node))
    if not isinstance(met, bool):
        raise ExpressionError(f"`if` must be true or false, not {met!r:.80}")
    return None if met else ("unmet", "its `if` is false")


def begun(node: PlanNode, path: str, home: str, attempt: int = 1) -> Begun:
    """Return the ledger entry of the start of a node or an iteration."""
    if node.kind in ("use", "agent", "plan") and (node.loop is None or is_visit(path)):
        return Begun(path, home, node.use, node.version, node.effect, attempt)
    return Begun(path, home, attempt=attempt)


def is_visit(path: str) -> bool:
    """Whether a path is one of a visit of a loop, such as `each[2]`, and not of the loop."""
    return "[" in path.rpartition("/")[2]


def mark_of(body: Body, inputs: Json) -> str:
    """By what a call of a workflow is known again further down."""
    return f"{body.id} {canonical(inputs)}"


def guard(body: Body, inputs: Json, stack: tuple[str, ...], *, deepest: int) -> None:
    """Check that a workflow may start here; raises `ShapeError` with the call stack."""
    if mark_of(body, inputs) in stack:
        calls = " → ".join([*(mark.partition(" ")[0] for mark in stack), body.id])
        raise ShapeError(
            f"the workflow {body.id!r} would run inside itself with the same inputs: {calls}"
        )
    if len(stack) >= deepest:
        raise ShapeError(f"workflows are nested more than {deepest} levels deep")
