"""How often a run of a plan can call its tools and models at most, by its document alone."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from pipecatapp.workflow import Plan
from pipecatapp.workflow.planning import Jump, PlanLoop, PlanNode, agent

Sum = Counter[tuple[str, ...]]
"""How many, by what each is to be multiplied with: `()` for those that are just so many."""


@dataclass(frozen=True)
class Bounds:
    """`steps` as `limits.nodes` counts them, and how many of them ask a model."""

    steps: Sum
    models: Sum


def bounds(plan: Plan) -> Bounds:
    """The worst case: every loop to its `max`, every retry needed, both sides of each `if`.

    What a tool other than `agent` calls inside itself is not known, and not among them.
    """
    return _Bounding(plan).scope(plan.body.nodes, "", (plan.workflow,))


def bound_text(found: Sum) -> str:
    """It in words: `7 + 2 for each item of split`."""
    terms = [(many, " and ".join(each)) for each, many in sorted(found.items()) if many]
    return " + ".join(f"{many} {each}".strip() for many, each in terms) or "0"


class _Bounding:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def scope(self, nodes: tuple[PlanNode, ...], path: str, stack: tuple[str, ...]) -> Bounds:
        every = [self._node(nodes, node, path, stack) for node in nodes]
        return Bounds(
            _total(one.steps for one in every),
            _total(one.models for one in every),
        )

    def _node(
        self, nodes: tuple[PlanNode, ...], node: PlanNode, path: str, stack: tuple[str, ...]
    ) -> Bounds:
        at = f"{path}/{node.id}" if path else node.id
        one = self._visit(node, at, stack)
        often = _times(Sum({(): 1 + node.retries}), _visits(node, at))
        steps = _times(one.steps, often)
        if node.loop:
            steps[()] += 1
        steps.update(_questions(node.loop, f"visit of {at}"))
        for jump in (node.jump, node.rescue):
            steps.update(_questions(jump, f"return of {at}"))
        again = _returns(nodes, node, path)
        return Bounds(_times(steps, again), _times(_times(one.models, often), again))

    def _visit(self, node: PlanNode, at: str, stack: tuple[str, ...]) -> Bounds:
        if node.kind == "goto" or node.cache == "pin":
            return Bounds(Sum(), Sum())
        if node.kind == "agent":
            return _agent(node, at)
        if node.kind == "plan":
            return Bounds(
                Sum({(): 1, (f"for each step of the plan of {at}",): 1}),
                Sum({(f"for each model in the plan of {at}",): 1}),
            )
        if node.kind == "use":
            return Bounds(Sum({(): 1}), Sum({(): int(node.effect == "llm")}))
        name = node.use.removeprefix("workflow/")
        if node.kind == "workflow" and name in stack:
            inside = Bounds(Sum({(f"for each step of {name} inside itself",): 1}), Sum())
        elif node.kind == "workflow":
            inside = self.scope(self._plan.bodies[name].nodes, at, (*stack, name))
        else:
            inside = self.scope(node.nodes, at, stack)
        return Bounds(_total([inside.steps, Sum({(): 1})]), inside.models)


def _agent(node: PlanNode, at: str) -> Bounds:
    told = node.given.get("max_turns", agent.takes.model_fields["max_turns"].default)
    turns = Sum({(): told}) if isinstance(told, int) else Sum({(f"for each turn of {at}",): 1})
    steps = _total([turns, Sum({(): 1})])
    if node.given.get("tools"):
        steps[f"for each tool that {at} calls",] = 1
    return Bounds(steps, turns)


def _visits(node: PlanNode, at: str) -> Sum:
    if node.loop is None:
        return Sum({(): 1})
    if node.loop.kind == "for":
        items = node.loop.over
        return Sum(
            {(): len(items)}
            if isinstance(items, list | tuple)
            else {(f"for each item of {at}",): 1}
        )
    return _more(node.loop.max, node.loop.on_max, f"visit of {at}")


def _returns(nodes: tuple[PlanNode, ...], node: PlanNode, path: str) -> Sum:
    """Return how often jumps of its scope can run it: its counters reset with the scope only."""
    places = {other.id: place for place, other in enumerate(nodes)}
    found = Sum({(): 1})
    for place, other in enumerate(nodes):
        for jump in (other.jump, other.rescue):
            if jump is not None and jump.max and places[jump.to] <= places[node.id] <= place:
                at = f"{path}/{other.id}" if path else other.id
                found.update(_more(jump.max, jump.on_max, f"return of {at}"))
    return found


def _more(most: int | None, on_max: str, what: str) -> Sum:
    """Return a maximum, which a person can extend if `on_max` is `ask`."""
    found = Sum({(): most or 0})
    if on_max == "ask":
        found[_allowed(what)] = 1
    return found


def _questions(asked: PlanLoop | Jump | None, what: str) -> Sum:
    """Return the number of questions to a person for more iterations."""
    if asked is None or asked.on_max != "ask":
        return Sum()
    return Sum({(): 1, _allowed(what): 1})


def _allowed(what: str) -> tuple[str]:
    return (f"for each further {what} that a person allows",)


def _times(one: Sum, other: Sum) -> Sum:
    found = Sum()
    for each, many in one.items():
        for every, more in other.items():
            found[each + every] += many * more
    return found


def _total(sums: Iterable[Sum]) -> Sum:
    found = Sum()
    for one in sums:
        found.update(one)
    return found
