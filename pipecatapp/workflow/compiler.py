"""Compile = validate = dry run: from documents to a plan, or to every fault at once."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipecatapp.workflow import checks
from pipecatapp.workflow.document import Diagnostic, InvalidDocument, Prompt, Workflow
from pipecatapp.workflow.document.diagnostic import did_you_mean
from pipecatapp.workflow.document.model import Node
from pipecatapp.workflow.document.shapes import ShapeError, fits, look_up, shape
from pipecatapp.workflow.document.yaml_text import Path
from pipecatapp.workflow.expressions import ExpressionError, Read, expression, expressions
from pipecatapp.workflow.plan import Body, Kind, Limits, Plan, PlanInput, PlanNode, PlanOutput
from pipecatapp.workflow.tool import Json, Tool

_TEXT: Json = {"type": "string"}
_RUN: Json = {"type": "object", "properties": {"id": _TEXT, "request": _TEXT}}


def compile_workflow(
    workflow: Workflow,
    tools: Mapping[str, Tool],
    prompts: Iterable[Prompt] = (),
    *,
    workflows: Mapping[str, Workflow] | None = None,
    roles: Mapping[str, str] | None = None,
) -> Plan:
    """The frozen plan of a workflow; raises `InvalidDocument`."""
    library = _Library(
        tools, tuple(prompts), {**(workflows or {}), workflow.id: workflow}, roles or {}
    )
    library.add(workflow)
    if library.faults:
        raise InvalidDocument(library.faults)
    limits = Limits.model_validate(workflow.document.limits.model_dump())
    return Plan(
        workflow=workflow.id, bodies=library.bodies, roles=dict(library.roles), limits=limits
    )


@dataclass
class _Library:
    """What documents may name, and what was found of it so far."""

    tools: Mapping[str, Tool]
    prompts: Sequence[Prompt]
    workflows: Mapping[str, Workflow]
    roles: Mapping[str, str]
    bodies: dict[str, Body] = field(default_factory=dict)
    faults: list[Diagnostic] = field(default_factory=list)
    begun: set[str] = field(default_factory=set)

    def add(self, workflow: Workflow) -> None:
        """Compile a workflow and those it uses, each once."""
        if workflow.id not in self.begun:
            self.begun.add(workflow.id)
            body = _WorkflowCompiler(self, workflow).body()
            self.bodies = {workflow.id: body, **self.bodies}


@dataclass(frozen=True)
class _Entry:
    """A node of a scope; nodes of an `else` list stand behind the node they belong to."""

    path: Path
    node: Node
    unless: str | None = None


@dataclass
class _Scope:
    """Names as they can be read at one place: what each gives, and why some cannot be read."""

    known: dict[str, Json]
    barred: dict[str, str] = field(default_factory=dict)


def _flat(path: Path, nodes: Iterable[Node], unless: str | None = None) -> Iterator[_Entry]:
    for index, node in enumerate(nodes):
        yield _Entry((*path, index), node, unless)
        yield from _flat((*path, index, "else"), node.otherwise, node.id)


class _WorkflowCompiler:
    """Compiles one document; faults go to the library."""

    def __init__(self, library: _Library, workflow: Workflow) -> None:
        self.library, self.workflow, self.document = library, workflow, workflow.document

    def body(self) -> Body:
        document = self.document
        for name, given in document.inputs.items():
            if not given.required and given.default is not None:
                self._typed(("inputs", name, "default"), given.type, given.default)
        names: dict[str, Json] = {"inputs": self.workflow.input_schema(), "run": _RUN}
        order = "steps" if document.steps is not None else "graph"
        entries = list(_flat((order,), document.steps or document.graph or []))
        nodes, gives = self._scope(order, entries, _Scope(names))
        for name, out in document.outputs.items():
            self._read_all(("outputs", name), out.value, _Scope({**names, **gives}))
        return Body(
            id=document.id,
            version=document.version,
            about=document.about,
            order="steps" if document.steps is not None else "graph",
            nodes=nodes,
            inputs={
                name: PlanInput(type=given.type, default=given.default, required=given.required)
                for name, given in document.inputs.items()
            },
            outputs={
                name: PlanOutput(value=out.value, type=out.type)
                for name, out in document.outputs.items()
            },
        )

    def _scope(
        self, order: str, entries: list[_Entry], outer: _Scope
    ) -> tuple[tuple[PlanNode, ...], dict[str, Json]]:
        """The nodes of a scope, and the schema of what each gives."""
        gives = {entry.node.id: self._gives(entry.node) for entry in entries}
        nodes: list[PlanNode] = []
        for index, entry in enumerate(entries):
            barred = {entry.node.id: "a node cannot read itself"}
            if order == "steps":
                later = [other.node.id for other in entries[index + 1 :]]
                barred |= dict.fromkeys(later, "it comes later in these steps")
            visible = _Scope({**outer.known, **gives}, {**outer.barred, **barred})
            before = entries[index - 1].node.id if order == "steps" and index else None
            nodes.append(self._node(entry, visible, set(gives), before))
        places = {entry.node.id: entry.path for entry in entries}
        for found in (*checks.cycles(nodes), *checks.never(nodes)):
            self._fault((*places[str(found.path[0])], "id"), found.message, found.mend)
        return tuple(nodes), gives

    def _node(
        self, entry: _Entry, visible: _Scope, siblings: set[str], before: str | None
    ) -> PlanNode:
        node, path = entry.node, entry.path
        reads = self._read_all((*path, "if"), node.when, visible)
        reads += self._read_all((*path, "with"), node.given, visible)
        reads += self._read_all((*path, "model"), node.model, visible)
        self._check_needs(entry, siblings, visible)
        inner, inner_reads = self._inner(entry, visible)
        names = [str(read.path[0]) for read in reads if read.path[0] not in ("inputs", "run")]
        hard = [
            str(read.path[0])
            for read in reads
            if not read.soft and read.path[0] not in ("inputs", "run")
        ]
        waits = {before} if before else {entry.unless, *names, *node.needs, *inner_reads} & siblings
        common: dict[str, Any] = {
            "id": node.id,
            "when": True if node.when is None else node.when,
            "unless": entry.unless,
            "waits": sorted(name for name in waits if name),
            "reads": list(dict.fromkeys(names)),
            "hard": list(dict.fromkeys(hard)),
            "needs": node.needs,
            "stream": node.stream,
            "tags": node.tags,
            "about": node.about,
            "nodes": inner,
            "timeout": node.timeout,
        }
        return PlanNode(**{**common, **self._use(entry, visible)})

    def _inner(self, entry: _Entry, visible: _Scope) -> tuple[tuple[PlanNode, ...], set[str]]:
        """The nodes of a nested scope, and the names around it that they read."""
        node = entry.node
        if node.use is not None:
            return (), set()
        order = "steps" if node.steps is not None else "graph"
        entries = list(_flat((*entry.path, order), node.steps or node.graph or []))
        nodes, gives = self._scope(order, entries, visible)
        return nodes, {name for name in _all_reads(nodes) if name not in gives}

    def _use(self, entry: _Entry, visible: _Scope) -> dict[str, Any]:
        """What depends on the thing that a node uses."""
        node = entry.node
        if node.use is None:
            kind: Kind = "steps" if node.steps is not None else "graph"
            return {"kind": kind}
        if node.use.startswith("workflow/"):
            return self._use_workflow(entry, visible)
        tool = self.library.tools.get(node.use)
        if tool is None:
            mend = did_you_mean(
                node.use,
                [*self.library.tools, *(f"workflow/{id}" for id in self.library.workflows)],
            )
            self._fault((*entry.path, "use"), f"there is no tool {node.use!r}", mend)
            return {"kind": "use", "use": node.use}
        return self._use_tool(entry, tool, visible)

    def _use_workflow(self, entry: _Entry, visible: _Scope) -> dict[str, Any]:
        node, path = entry.node, entry.path
        used = self.library.workflows.get(str(node.use).removeprefix("workflow/"))
        self._check_modifiers(entry, "a workflow", takes=())
        if used is None:
            mend = did_you_mean(str(node.use), [f"workflow/{id}" for id in self.library.workflows])
            self._fault((*path, "use"), f"there is no {node.use!r}", mend)
            return {"kind": "workflow", "use": node.use}
        self.library.add(used)
        schema = used.input_schema()
        self._found(path, checks.keys(node.given, schema, filled=(), short=()))
        for name, value in node.given.items():
            if name in used.document.inputs and not list(expressions(value)):
                self._typed((*path, "with", name), used.document.inputs[name].type, value)
        self._check_kinds(path, node.given, schema, visible)
        return {"kind": "workflow", "use": node.use, "version": used.version, "given": node.given}

    def _use_tool(self, entry: _Entry, tool: Tool, visible: _Scope) -> dict[str, Any]:
        node, path, fields = entry.node, entry.path, tool.takes.model_fields
        messages = "messages" in fields and tool.effect == "llm"
        model = (
            node.model
            or self.document.defaults.model
            or ("default" if "default" in self.library.roles else None)
        )
        modifiers = {"model": "model" in fields, "prompt": messages, "returns": messages}
        taken = [key for key, fine in modifiers.items() if fine]
        self._check_modifiers(entry, f"the tool {tool.name!r}", takes=taken)
        short = {"text"} if messages and "text" not in fields else set()
        schema = tool.input_schema()
        filled = {name for name, fine in (("model", model), ("messages", messages)) if fine}
        self._found(path, checks.keys(node.given, schema, filled=filled, short=short))
        self._found(path, checks.literals(node.given, tool.takes, short))
        self._check_kinds(path, node.given, schema, visible)
        self._check_tools(path, tool, node.given)
        return {
            "kind": "agent" if tool.name == "agent" else "use",
            "use": tool.name,
            "version": tool.version,
            "effect": tool.effect,
            "given": node.given,
            "model": model if "model" in fields else None,
            "messages": messages,
            "system": self._system(path, node.prompt),
            "returns": node.returns,
            "timeout": node.timeout or self.document.defaults.timeout,
        }

    def _gives(self, node: Node) -> Json:
        """The schema of a node's output; `{}` where nothing is known."""
        if node.use is None:
            inner = _flat((), [*(node.steps or []), *(node.graph or [])])
            return {
                "type": "object",
                "properties": {entry.node.id: self._gives(entry.node) for entry in inner},
            }
        if node.returns is not None:
            return shape(node.returns).schema()
        if node.use.startswith("workflow/"):
            used = self.library.workflows.get(node.use.removeprefix("workflow/"))
            return used.output_schema() if used else {}
        tool = self.library.tools.get(node.use)
        return tool.output_schema() if tool else {}

    def _read_all(self, path: Path, value: Any, visible: _Scope) -> list[Read]:
        """Everything a value reads, each checked."""
        reads: list[Read] = []
        for at, source in expressions(value):
            try:
                found = expression(source)
            except ExpressionError as error:
                self._fault((*path, *at), f"not an expression: {error}")
                continue
            for read in found.reads:
                if self._check_read((*path, *at), read, visible):
                    reads.append(read)
        return reads

    def _check_read(self, path: Path, read: Read, visible: _Scope) -> bool:
        name = str(read.path[0])
        if reason := visible.barred.get(name):
            self._fault(path, f"{name!r} cannot be read here: {reason}")
        elif name not in visible.known:
            known = [other for other in visible.known if other not in visible.barred]
            self._fault(path, f"there is no {name!r} here", did_you_mean(name, known))
        else:
            try:
                look_up(visible.known[name], read.path[1:], visible.known[name])
            except ShapeError as error:
                self._fault(path, f"{read}: {error}")
                return name not in ("inputs", "run")
            return True
        return False

    def _check_needs(self, entry: _Entry, siblings: set[str], visible: _Scope) -> None:
        for index, name in enumerate(entry.node.needs):
            if name not in siblings:
                self._fault(
                    (*entry.path, "needs", index),
                    f"there is no {name!r} here",
                    did_you_mean(name, siblings),
                )
            elif reason := visible.barred.get(name):
                self._fault(
                    (*entry.path, "needs", index), f"{name!r} cannot be needed here: {reason}"
                )

    def _check_modifiers(self, entry: _Entry, what: str, *, takes: Collection[str]) -> None:
        for key in ("model", "prompt", "returns"):
            if getattr(entry.node, key) and key not in takes:
                self._fault(
                    (*entry.path, key), f"{what} does not take `{key}`", "Remove it", key=True
                )

    def _check_kinds(self, path: Path, given: Json, schema: Json, visible: _Scope) -> None:
        """An expression whose kind is known must fit the input it fills."""
        for at, source in expressions(given):
            try:
                wanted = look_up(schema, at, schema)
                kind, root = self._kind(source, visible)
            except (ShapeError, ExpressionError):
                continue
            if not fits(kind, wanted, given_root=root, wanted_root=schema):
                takes, gives = wanted.get("type", "another type"), kind.get("type")
                told = f"{at[-1]!r} takes {takes}, but this gives {gives}"
                self._fault((*path, "with", *at), told)

    def _kind(self, source: str, visible: _Scope) -> tuple[Json, Json]:
        found = expression(source)
        if not found.native:
            return _TEXT, _TEXT
        root = visible.known.get(str(found.only.path[0]), {}) if found.only else {}
        return look_up(root, found.only.path[1:] if found.only else (), root), root

    def _check_tools(self, path: Path, tool: Tool, given: Json) -> None:
        """An agent may be given only tools that exist."""
        offered = given.get("tools") if tool.name == "agent" else None
        for index, name in enumerate(offered if isinstance(offered, list) else []):
            if isinstance(name, str) and "{{" not in name and name not in self.library.tools:
                mend = did_you_mean(name, self.library.tools)
                self._fault((*path, "with", "tools", index), f"there is no tool {name!r}", mend)

    def _system(self, path: Path, tags: list[str]) -> str:
        """The prompts all of whose tags are asked for, joined."""
        known = {tag for prompt in self.library.prompts for tag in prompt.tags}
        for index, tag in enumerate(tags):
            if tag not in known:
                self._fault(
                    (*path, "prompt", index),
                    f"no prompt has the tag {tag!r}",
                    did_you_mean(tag, known),
                )
        chosen = [
            prompt.text.strip()
            for prompt in self.library.prompts
            if prompt.tags and prompt.tags <= set(tags)
        ]
        if tags and not chosen and known.issuperset(tags):
            self._fault(
                (*path, "prompt"),
                "no prompt has only tags that stand here",
                "Add the other tags of the one you mean",
            )
        return "\n\n".join(chosen)

    def _typed(self, path: Path, shorthand: Any, value: Any) -> None:
        try:
            shape(shorthand).check(value)
        except ShapeError as error:
            self._fault(path, str(error))

    def _found(self, path: Path, findings: Iterable[checks.Finding]) -> None:
        for found in findings:
            self._fault((*path, *found.path), found.message, found.mend, key=found.key)

    def _fault(self, path: Path, message: str, mend: str = "", *, key: bool = False) -> None:
        self.library.faults.append(self.workflow.source.diagnostic(path, message, mend, key=key))


def _all_reads(nodes: Iterable[PlanNode]) -> Iterator[str]:
    for node in nodes:
        yield from node.reads
        inner = {child.id for child in node.nodes}
        yield from (name for name in _all_reads(node.nodes) if name not in inner)
