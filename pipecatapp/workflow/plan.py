"""A plan: a compiled and composed workflow, immutable, ready to run or to be shown.

It contains everything that a run needs except the tools, so a run that is resumed after an edit of
its documents continues with the original plan. Its canonical JSON is stored with the run.
"""

from collections import ChainMap
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from pipecatapp.workflow.expressions import expression, expressions
from pipecatapp.workflow.graph import Frozen, Graph, GraphEdge, GraphNode
from pipecatapp.workflow.tool import EFFECTS, Effect, Json, ModelNeeds, Tool, Where
from pipecatapp.workflow.tool_names import current_name, is_pattern, matches

Kind = Literal["use", "steps", "graph", "workflow", "agent", "plan", "goto"]


WIDEST = 2000
"""Nodes of a graph from which on workflows that are used are not drawn from inside."""


class ModelChoice(Frozen):
    """The models for a node in order of preference, with requirements; also the binding of a role.

    A text or a list stands for `use`.
    """

    use: tuple[str, ...] = ("default",)
    escalate: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    context: int | None = None
    privacy: Literal["any", "local"] = "any"
    max_cost: float | None = None

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"use": (value,)}
        return {"use": tuple(value)} if isinstance(value, list | tuple) else value

    @property
    def wants(self) -> ModelNeeds:
        """The requirements for each of the models."""
        return ModelNeeds(frozenset(self.needs), self.context, self.privacy, self.max_cost)


class PlanLoop(Frozen):
    """How often a node is visited. `over` is the list of a `for`, the condition of the others."""

    kind: Literal["for", "while", "until"]
    over: Any
    name: str = "item"
    parallel: int = 1
    max: int | None = None
    on_max: Literal["fail", "continue", "ask"] = "fail"
    stuck_on: str | None = None


class Jump(Frozen):
    """The target of a jump, and its maximum number if it leads back."""

    to: str
    max: int | None = None
    on_max: Literal["fail", "continue", "ask"] = "fail"


class PlanNode(Frozen):
    """One node. Names are ids of its scope or of scopes around it."""

    id: str
    kind: Kind
    use: Annotated[str, AfterValidator(current_name)] = ""
    version: int = 0
    effect: Effect | None = None
    when: bool | str = True
    unless: str | None = None
    """The node whose `else` list contains it: it runs if the `if` of that node was false."""
    waits: tuple[str, ...] = ()
    """Siblings that must have ended before it."""
    reads: tuple[str, ...] = ()
    hard: tuple[str, ...] = ()
    """Those it cannot do without: when one is skipped, so is this."""
    needs: tuple[str, ...] = ()
    given: Json = Field({})
    model: ModelChoice | None = None
    messages: bool = False
    """Whether the tool takes messages, to which system text and `text` are converted."""
    offers: tuple[Effect, ...] = ()
    """Effects of the tools of an agent, or of the steps of a plan."""
    system: str = ""
    returns: Any = None
    check: dict[str, bool | str] = Field({})
    """Conditions of its output, by the message for each that is not met."""
    timeout: float | None = None
    loop: PlanLoop | None = None
    again: bool = False
    """True if a jump back passes over it, so that it has visits, `loop` and `prev`."""
    jump: Jump | None = None
    on_error: Literal["stop", "continue", "goto"] = "stop"
    rescue: Jump | None = None
    """Where `on_error: {goto: …}` leads."""
    retries: int = 0
    wait: float = 0.0
    """Seconds before a further try."""
    cache: Literal["auto", "never", "pin"] = "auto"
    pinned: Any = None
    workspace: Literal["same", "fork"] = "same"
    where: Where = "local"
    stream: bool = False
    tags: tuple[str, ...] = ()
    about: str = ""
    nodes: tuple["PlanNode", ...] = ()

    @property
    def renewals(self) -> int:
        """How often it, or an iteration, is repeated as a whole; a single tool call is just
        repeated."""
        return 0 if self.kind == "use" else self.retries


class PlanInput(Frozen):
    type: Any
    default: Any = None
    required: bool = False


class PlanOutput(Frozen):
    value: Any
    type: Any = "any"


class Body(Frozen):
    """One workflow of a plan: a scope of nodes with typed inputs and outputs."""

    id: str
    version: int
    about: str = ""
    project: Json | None = None
    """The value of `project` in expressions."""
    order: Literal["steps", "graph"]
    nodes: tuple[PlanNode, ...]
    allow: tuple[Effect, ...] | None = None
    """Effects permitted for it and everything it uses; None for all effects of the caller's
    grant."""
    inputs: dict[str, PlanInput]
    outputs: dict[str, PlanOutput]


class PlanWorkspace(Frozen):
    """The initial content of the run's folder; both may contain expressions over the inputs."""

    repo: str
    commit: str | None = None


class Limits(Frozen):
    """Limits of the sums over a whole run, including before restarts. None means no limit."""

    nodes: int = 1000
    depth: int = 8
    wall: float | None = None
    tokens: int | None = None
    cost: float | None = None


class Plan(Frozen):
    """A compiled workflow. `bodies` contains the workflow and all workflows that it uses."""

    format: Literal[1] = 1
    workflow: str
    bodies: dict[str, Body]
    roles: dict[str, ModelChoice]
    limits: Limits
    grants: tuple[Effect, ...] | None = None
    """Effects that the caller of the run grants; None for all that the document requests."""
    workspace: PlanWorkspace | None = None

    @property
    def body(self) -> Body:
        """The workflow itself."""
        return self.bodies[self.workflow]

    def beginning_with(self, repo: str, commit: str) -> "Plan":
        """Return the same plan with a workspace that begins with a commit of a repository."""
        workspace = PlanWorkspace(repo=repo, commit=commit)
        return self.model_copy(update={"workspace": workspace})

    def granted(self) -> frozenset[Effect]:
        """The effects that a run of it may have."""
        return narrowed(narrowed(EFFECTS, self.grants), self.body.allow)

    def effects(
        self, name: str = "", seen: frozenset[str] = frozenset(), *, offered: bool = True
    ) -> dict[Effect, str]:
        """Return the effects of a workflow and of all that it uses, each with the path of a node.

        Tools that an agent gets only during the run are not included, and without `offered` no
        tools of agents.
        """
        return self.effects_of(self.bodies[name or self.workflow].nodes, seen, offered=offered)

    def effects_of(
        self,
        nodes: tuple[PlanNode, ...],
        seen: frozenset[str] = frozenset(),
        *,
        offered: bool = True,
    ) -> dict[Effect, str]:
        """Return the effects of some nodes of a scope, each with a path of a node."""
        found: dict[Effect, str] = {}
        for path, node in _all_nodes("", nodes):
            inner = node.use.removeprefix("workflow/")
            if node.kind == "workflow" and inner in self.bodies and inner not in seen:
                below = self.effects(inner, seen | {inner}, offered=offered)
                found = {effect: f"{path}/{at}" for effect, at in below.items()} | found
            for effect in (node.effect, *(node.offers if offered else ())):
                if effect is not None:
                    found.setdefault(effect, path)
        return found

    def check_tools(self, tools: Mapping[str, Tool]) -> None:
        """Whether every tool is still what it was; raises LookupError naming one that is not."""
        for node in self._nodes():
            gone = node.use not in tools or tools[node.use].version != node.version
            if node.kind in ("use", "agent", "plan") and gone:
                raise LookupError(f"the tool {node.use} (version {node.version}) is not available")

    def tools_within_reach(self, tools: Mapping[str, Tool]) -> list[Tool]:
        """Return the tools that a run may call: those of its nodes and of its agents.

        An agent whose tools are an expression may get any tool. Tools with an effect that is not
        granted are omitted.
        """
        granted = self.granted()
        found = {name for node in self._nodes() for name in _tools_of(node, tools)}
        return [tools[name] for name in sorted(found) if tools[name].effect in granted]

    def offers_by_pattern(self) -> bool:
        """Whether an agent gets tools by a pattern or an expression."""
        return any(not _is_name(name) for node in self._nodes() for name in _offered(node))

    def passes_on(self, name: str, workflow: str = "", seen: frozenset[str] = frozenset()) -> bool:
        """Return whether a node gets the input `name`, in this workflow or in one that it uses.

        `run.request` contains only text, so an input that is not passed on loses images.
        """
        body = self.bodies[workflow or self.workflow]
        for _, node in _all_nodes("", body.nodes):
            given = {**node.given, "for": node.loop.over if node.loop else None}
            read = [key for key, value in given.items() if _reads_input(value, name)]
            inner = node.use.removeprefix("workflow/")
            if read and node.kind != "workflow":
                return True
            if node.kind == "workflow" and inner not in seen:
                below = seen | {inner}
                if any(self.passes_on(key, inner, below) for key in read if key in node.given):
                    return True
        return False

    def uses(self, tool: str) -> bool:
        """Whether one of its nodes uses a tool."""
        return any(node.use == tool for node in self._nodes())

    def leaves_home(self) -> bool:
        """Whether programs of it run in other places."""
        return any(node.where != "local" for node in self._nodes())

    def _nodes(self) -> Iterator[PlanNode]:
        for body in self.bodies.values():
            yield from (node for _, node in _all_nodes("", body.nodes))

    def graph(self, at: str = "") -> Graph:
        """The nodes of this workflow and of those it uses, each once on every way down; `at` is
        the node that runs it as a part of another graph.
        """
        graph = Graph(nodes=[], edges=[])
        self._draw(graph, self.body.nodes, at, ChainMap(), (self.workflow,))
        return graph

    def _draw(
        self,
        graph: Graph,
        nodes: tuple[PlanNode, ...],
        parent: str,
        outer: ChainMap[str, str],
        stack: tuple[str, ...],
    ) -> None:
        paths = outer.new_child({node.id: _join(parent, node.id) for node in nodes})
        for node in nodes:
            path = paths[node.id]
            graph.nodes.append(_drawn(node, path, parent))
            order = [name for name in (*node.waits, *node.needs) if name not in node.reads]
            for kind, names in (("data", node.reads), ("order", order)):
                graph.edges.extend(
                    GraphEdge.model_validate({"from": paths[name], "to": path, "kind": kind})
                    for name in dict.fromkeys(names)
                )
            graph.edges.extend(
                GraphEdge.model_validate({"from": path, "to": paths[jump.to], "kind": "jump"})
                for jump in (node.jump, node.rescue)
                if jump is not None
            )
            inner = node.use.removeprefix("workflow/")
            if node.kind != "workflow":
                if node.nodes:
                    self._draw(graph, node.nodes, path, paths, stack)
            elif inner not in stack and len(graph.nodes) < WIDEST:
                inside = self.bodies[inner].nodes
                self._draw(graph, inside, path, ChainMap(), (*stack, inner))


def loop_text(loop: PlanLoop) -> str:
    """How a node repeats, in words."""
    if loop.kind == "for":
        return "for each" + (f", {loop.parallel} at a time" if loop.parallel > 1 else "")
    return f"{loop.kind}, {loop.max} visits at most, then {loop.on_max}"


def _drawn(node: PlanNode, path: str, parent: str) -> GraphNode:
    kind = "use" if node.kind == "workflow" or node.kind == "plan" else node.kind
    return GraphNode(
        path=path,
        id=node.id,
        label=node.id,
        kind=kind,
        use=node.use,
        parent=parent,
        about=node.about,
        loop=loop_text(node.loop) if node.loop else "",
    )


class NotGranted(PermissionError):
    """The run needs effects that its caller does not grant; nothing was started."""


def granting(plan: Plan, grants: Collection[Effect], *, offered: bool = True) -> Plan:
    """Return the plan restricted to these effects; raises `NotGranted` if it needs others.

    Without `offered` its agents may have tools with other effects, whose calls then fail.
    """
    for effect, path in sorted(plan.effects(offered=offered).items()):
        if effect not in grants:
            raise NotGranted(f"{path} needs the effect `{effect}`, which is not granted.")
    return plan.model_copy(update={"grants": tuple(sorted(set(grants)))})


def narrowed(granted: frozenset[Effect], to: Collection[Effect] | None) -> frozenset[Effect]:
    """Grants only ever become fewer."""
    return granted if to is None else granted.intersection(to)


def _reads_input(value: Any, name: str) -> bool:
    """Whether an expression in a value reads an input of the workflow, or all of them."""
    reads = [read for _, source in expressions(value) for read in expression(source).reads]
    return any(read.path[:2] in (("inputs",), ("inputs", name)) for read in reads)


def _tools_of(node: PlanNode, tools: Mapping[str, Tool]) -> Iterator[str]:
    """Yield the names of the tools that one node may call."""
    for name in (node.use, *_offered(node)):
        any_tool = "{{" in str(name)
        yield from (tool for tool in tools if any_tool or matches(str(name), tool))


def _offered(node: PlanNode) -> list[Any]:
    """Return the tools of an agent: names, patterns, expressions."""
    named = node.given.get("tools") or [] if node.kind == "agent" else []
    return named if isinstance(named, list) else [named]


def _is_name(name: Any) -> bool:
    return "{{" not in str(name) and not is_pattern(str(name))


def _all_nodes(parent: str, nodes: Iterable[PlanNode]) -> Iterator[tuple[str, PlanNode]]:
    for node in nodes:
        path = _join(parent, node.id)
        yield path, node
        yield from _all_nodes(path, node.nodes)


def _join(parent: str, name: str) -> str:
    return f"{parent}/{name}" if parent else name
