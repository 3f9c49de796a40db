"""Checks of the compiler for the input of a node, and for the nodes of a scope together."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ValidationError

from pipecatapp.workflow.document.diagnostic import did_you_mean
from pipecatapp.workflow.document.yaml_text import Path
from pipecatapp.workflow.expressions import expression, expressions
from pipecatapp.workflow.plan import Body, Plan, PlanNode
from pipecatapp.workflow.tool import REPEATABLE, Json


@dataclass(frozen=True)
class Finding:
    """A fault at a place of the document; `key` when it is the key there that is wrong."""

    path: Path
    message: str
    mend: str = ""
    key: bool = False


def keys(
    given: Json, schema: Json, *, filled: Collection[str], short: Collection[str]
) -> Iterator[Finding]:
    """Inputs that do not exist, and ones that are missing though nothing fills them in."""
    known = {*schema.get("properties", {}), *short}
    for name in given:
        if name not in known:
            mend = did_you_mean(name, known, otherwise="It takes nothing")
            yield Finding(("with", name), f"there is no input {name!r}", mend, key=True)
    for name in schema.get("required", []):
        if name not in given and name not in filled:
            place: Path = ("with",) if given else ("use",)
            yield Finding(place, f"the input {name!r} is missing", f"Add `{name}: …` to `with`")


def literals(given: Json, takes: type[BaseModel], aside: Collection[str]) -> Iterator[Finding]:
    """Check literal inputs in full; inputs with an expression are checked when their value is
    known."""
    unknown = [place for place, _ in expressions(given)]
    try:
        takes.model_validate({name: value for name, value in given.items() if name not in aside})
    except ValidationError as error:
        for fault in error.errors(include_url=False):
            at = fault["loc"]
            told = at and at[0] in given and fault["type"] != "extra_forbidden"
            if told and not any(_overlap(at, place) for place in unknown):
                yield Finding(("with", *at), f"{'.'.join(map(str, at))}: {fault['msg']}")


def _overlap(one: Path, other: Path) -> bool:
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]


def cycles(nodes: Sequence[PlanNode]) -> Iterator[Finding]:
    """Nodes that wait for each other, each cycle once, found at its first node."""
    waits = {node.id: node.waits for node in nodes}
    done: set[str] = set()
    for node in nodes:
        if cycle := _cycle(node.id, waits, done):
            yield Finding((node.id,), f"a cycle: {' → '.join(cycle)}", "Remove one of these reads")
            done.update(cycle)


def _cycle(start: str, waits: Mapping[str, Sequence[str]], done: set[str]) -> tuple[str, ...]:
    """The first cycle on a way from `start`; what leads to none is `done`."""
    trail = {start: iter(waits[start])} if start not in done else {}
    while trail:
        for other in trail[name := next(reversed(trail))]:
            if other in trail:
                names = list(trail)
                return (*names[names.index(other) :], other)
            if other not in done:
                trail[other] = iter(waits.get(other, ()))
                break
        else:
            done.add(name)
            del trail[name]
    return ()


def never(nodes: Sequence[PlanNode]) -> Iterator[Finding]:
    """Nodes that cannot run, because two they need exclude each other or their `if` is false."""
    unless = {node.id: node.unless for node in nodes}
    for node in nodes:
        needed = {*node.hard, *node.needs}
        for side in (node.id, *sorted(needed)):
            for up in needed.intersection(_above(side, unless)):
                reason = f"{node.id!r} can never run: {side!r} runs only when {up!r} does not"
                yield Finding((node.id,), reason, "Join them with first(a, b)")
        if node.when is False:
            yield Finding((node.id,), f"{node.id!r} can never run: its `if` is false", "Remove it")


def jumps(order: str, nodes: Sequence[PlanNode]) -> Iterator[Finding]:
    """Jumps that lead nowhere, back without end, or past something for ever."""
    places = {node.id: index for index, node in enumerate(nodes)}
    unless = {node.id: node.unless for node in nodes}
    for index, node in enumerate(nodes):
        for jump, key in ((node.jump, ("goto",)), (node.rescue, ("on_error", "goto"))):
            at: Path = (node.id, *key)
            if jump is None:
                continue
            if order != "steps":
                yield Finding(at, "only `steps` have an order to jump in", "Use an `if` instead")
            elif jump.to not in places:
                mend = did_you_mean(jump.to, places)
                yield Finding(at, f"there is no {jump.to!r} among these steps", mend)
            elif places[jump.to] <= index and jump.max is None:
                yield Finding(at, "a jump back needs a `max`", "Add `max: …`")
            elif unless[jump.to] not in (None, *_above(node.id, unless)):
                told = f"{jump.to!r} is in an `else`, and runs only with its `if`"
                yield Finding(at, told, "Jump to the node with the `if`")
    yield from _passed_over(nodes, places)


def _passed_over(nodes: Sequence[PlanNode], places: Mapping[str, int]) -> Iterator[Finding]:
    """The first node that a jump without a condition keeps from ever running."""
    targets = {jump.to for node in nodes for jump in (node.jump, node.rescue) if jump}
    for index, node in enumerate(nodes):
        if node.jump is None or node.when is not True or node.unless is not None:
            continue
        if index + 1 < places.get(node.jump.to, 0) and nodes[index + 1].id not in targets:
            other = nodes[index + 1].id
            told = f"{other!r} can never run: {node.id!r} always passes over it"
            yield Finding((other,), told, f"Give {node.id!r} an `if`")


def beyond(plan: Plan, workflow: str) -> Iterator[Finding]:
    """Effects of a workflow, and of what it uses, that it does not ask for."""
    allow = plan.bodies[workflow].allow
    if allow is None:
        return
    for effect, path in sorted(plan.effects(workflow).items()):
        if effect not in allow:
            told = f"{path!r} has the effect `{effect}`, which is not allowed here"
            yield Finding(("allow",), told, f"Add {effect}")


def unrepeatable(plan: Plan, node: PlanNode) -> Iterator[Finding]:
    """Yield calls inside a node with `retry` that must not be repeated."""
    for effect, path in sorted(plan.effects_of((node,)).items()):
        if effect not in REPEATABLE and effect != "human":
            told = f"`retry` is unsafe here: {path!r} may have done something already"
            yield Finding((), told, "Let the nodes try again that may")


def apart(body: Body) -> list[str]:
    """Return nodes of a graph that are not connected to any output of the workflow: not an error,
    but rarely intended.
    """
    if body.order != "graph":
        return []
    sources = [source for out in body.outputs.values() for _, source in expressions(out.value)]
    joined = {str(read.path[0]) for source in sources for read in expression(source).reads}
    beside: dict[str, list[str]] = {node.id: list(node.waits) for node in body.nodes}
    for node in body.nodes:
        for name in node.waits:
            beside[name].append(node.id)
    joined = joined & beside.keys() or {node.id for node in body.nodes[:1]}
    ahead = list(joined)
    while ahead:
        near = [name for name in beside[ahead.pop()] if name not in joined]
        joined.update(near)
        ahead += near
    return [name for name in beside if name not in joined]


def _above(name: str, unless: Mapping[str, str | None]) -> Iterator[str]:
    above = unless.get(name)
    while above is not None:
        yield above
        above = unless.get(above)
