"""Preview of a run: which steps would be called and which are cached, with the reasons.

Walks the plan without calling anything: while outputs are known, inputs can be rendered and their
keys looked up. A step that depends on a call is `maybe`: if the call gives the same output as
before, later steps stay cached.
"""

from collections import ChainMap
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel

from pipecatapp.application.preview.prompts import PreviewPrompt, preview_prompts
from pipecatapp.workflow import ModelFacts, Plan, Tool
from pipecatapp.workflow.expressions import (
    ExpressionError,
    Missing,
    expression,
    expressions,
    render,
)
from pipecatapp.workflow.planning import (
    CACHED,
    Body,
    Json,
    Known,
    PlanNode,
    checked_inputs,
    input_of,
    loop_names,
    outputs_of,
    request_of,
    told,
    unmet,
)
from pipecatapp.workflow.storage import Reader
from pipecatapp.workflow.syntax import ShapeError

State = Literal["fresh", "maybe", "dirty", "skipped"]
Names = ChainMap[str, Any]
DEEPEST = 20
"""Workflows inside each other that are looked into."""


class PreviewStep(BaseModel):
    """A step of the preview: `fresh` is cached, `dirty` is called, `maybe` depends on other
    calls."""

    path: str
    state: State
    why: str


class Preview(BaseModel):
    """The preview of a run: its steps and the prompts of its models."""

    steps: list[PreviewStep]
    prompts: list[PreviewPrompt]


class _Stop(Exception):
    """Nothing is known of a step but its state, and why that is so."""

    def __init__(self, state: State, why: str) -> None:
        self.state, self.why = state, why
        super().__init__(why)


class DryRun:
    """Walks one plan; `known` has the results of the run that would be forked, if any."""

    def __init__(
        self, plan: Plan, tools: Mapping[str, Tool], facts: ModelFacts, reader: Reader, known: Known
    ) -> None:
        self._plan, self._tools, self._facts = plan, tools, facts
        self._reader, self._known = reader, known
        self._steps: list[PreviewStep] = []
        self._depth = 0

    def walk(self, inputs: Json) -> Preview:
        """Return the preview of a run with these inputs, which have been checked."""
        self._request = request_of(inputs)
        self._body(self._plan.body, "", inputs)
        return Preview(steps=self._steps, prompts=preview_prompts(self._plan, inputs))

    def _body(self, body: Body, path: str, inputs: Json) -> Json | None:
        run = {"id": "", "request": self._request}
        names: Names = ChainMap({"inputs": inputs, "run": run, "project": body.project})
        values = self._scope(body.nodes, path, names, {})
        return None if values is None else outputs_of(body, names.new_child(values))

    def _scope(
        self, nodes: tuple[PlanNode, ...], path: str, names: Names, around: Mapping[str, State]
    ) -> Json | None:
        """Return the outputs of the nodes of a scope; None if they are not all known."""
        values: Json = {}
        states: ChainMap[str, State] = ChainMap({}, dict(around))
        inside, left, jumped = names.new_child(values), list(nodes), False
        while left:
            waiting = {node.id for node in left}
            node = next((one for one in left if not waiting.intersection(one.waits)), left[0])
            left.remove(node)
            at = f"{path}/{node.id}" if path else node.id
            try:
                if jumped or node.again:
                    raise _Stop("maybe", "a jump decides")
                values[node.id] = self._node(node, at, inside, states)
                states[node.id] = "fresh"
                jumped = jumped or node.jump is not None
            except _Stop as stop:
                states[node.id] = stop.state
                values[node.id] = Missing(stop.why)
                self._add(at, stop.state, stop.why)
            except (ExpressionError, ShapeError) as error:
                states[node.id] = "dirty"
                self._add(at, "dirty", f"it fails: {error}")
        known = all(states[node.id] in ("fresh", "skipped") for node in nodes)
        return values if known else None

    def _add(self, path: str, state: State, why: str) -> None:
        self._steps.append(PreviewStep(path=path, state=state, why=why))

    def _node(self, node: PlanNode, path: str, names: Names, states: Mapping[str, State]) -> Any:
        needed = (*node.reads, *node.needs, *([node.unless] if node.unless else ()))
        if missing := sorted({n for n in needed if states.get(n) in ("maybe", "dirty")}):
            raise _Stop("maybe", f"it follows from {', '.join(missing)}")
        for name in (*node.hard, *node.needs):
            if states.get(name) == "skipped":
                raise _Stop("skipped", f"{name!r} is skipped")
        if node.unless is not None and states.get(node.unless) == "fresh":
            raise _Stop("skipped", f"it is the else of {node.unless!r}")
        if render(node.when, names) is False:
            raise _Stop("skipped", "its `if` is false")
        if node.loop is None:
            return self._visit(node, path, names, states)
        if node.loop.kind != "for":
            raise _Stop("maybe", "it repeats until its output ends it")
        return self._for(node, path, names, states)

    def _for(self, node: PlanNode, path: str, names: Names, states: Mapping[str, State]) -> Json:
        assert node.loop is not None
        items = render(node.loop.over, names)
        gave: list[Any] = []
        known, looks_back = True, _reads_back(node)
        for index, item in enumerate(items if isinstance(items, list) else []):
            at = f"{path}[{index}]"
            own = {node.loop.name: item, "loop": loop_names(names, index)}
            own["prev"] = gave[-1] if gave else None
            try:
                if looks_back and not known:
                    raise _Stop("maybe", "it follows from the visit before")
                gave.append(self._visit(node, at, names.new_child(own), states))
            except _Stop as stop:
                known = False
                self._add(at, stop.state, stop.why)
        if not known:
            raise _Stop("maybe", "it follows from its visits")
        self._add(path, "fresh", "all of its visits are cached")
        return {"all": gave, "last": gave[-1] if gave else None, "count": len(gave)}

    def _visit(self, node: PlanNode, path: str, names: Names, states: Mapping[str, State]) -> Any:
        if node.kind == "goto":
            return None
        if node.kind in ("use", "agent"):
            return self._call(node, path, names)
        if node.kind == "plan":
            raise _Stop("maybe", "its steps are planned in the run")
        if node.kind == "workflow":
            output = self._nested(node, path, names)
        else:
            output = self._scope(node.nodes, path, names, states)
        if output is None:
            raise _Stop("maybe", "it depends on the steps inside")
        self._add(path, "fresh", "all steps inside are cached")
        return output

    def _nested(self, node: PlanNode, path: str, names: Names) -> Json | None:
        if self._depth >= DEEPEST:
            raise _Stop("maybe", "it is nested too deeply in other workflows")
        body = self._plan.bodies[node.use.removeprefix("workflow/")]
        self._depth += 1
        try:
            return self._body(body, path, checked_inputs(body, render(node.given, names)))
        finally:
            self._depth -= 1

    def _call(self, node: PlanNode, path: str, names: Names) -> Any:
        if node.cache == "pin":
            self._add(path, "fresh", "pinned")
            return node.pinned
        tool = self._tools[node.use]
        if tool.workspace:
            raise _Stop("maybe", "it depends on the files of the run")
        given = input_of(node, tool, names, self._plan.roles, self._facts)
        given = told(node, given, self._request, ())
        key = self._known.key(tool, node, path, given)
        found = self._known.find(key, path)
        if found is None:
            raise _Stop("dirty", self._known.why(key, path) or _never(node, tool, given))
        output = self._reader.value(found.column)
        if (reason := unmet(node, names, output)) is not None:
            raise _Stop("dirty", reason)
        self._add(path, "fresh", f"known from {found.run}")
        return output


def _reads_back(node: PlanNode) -> bool:
    """Return whether an iteration reads outputs of the previous one."""
    sources = (source for _, source in expressions(node.model_dump()))
    return any(read.path[0] == "prev" for one in sources for read in expression(one).reads)


def _never(node: PlanNode, tool: Tool, given: Json) -> str:
    if node.cache == "never":
        return "its cache is `never`"
    if tool.effect not in CACHED:
        return f"what has the effect `{tool.effect}` is done in each run"
    if tool.effect == "llm" and given.get("temperature") != 0:
        return "its model is called in each run, as its temperature is not 0"
    return "there is no cached result"
