"""Compile = validate = dry run: from documents to a plan, or to all errors at once."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pipecatapp.workflow.compiling import checks
from pipecatapp.workflow.compiling.library import Entry, Library, flat
from pipecatapp.workflow.compiling.names import (
    RUN,
    Later,
    Layered,
    Visible,
    back_over,
    loop_facts,
    looped,
    loops,
    schema_of,
)
from pipecatapp.workflow.compiling.uses import Uses, retries
from pipecatapp.workflow.document import InvalidDocument, Project, Prompt, Workflow
from pipecatapp.workflow.document.diagnostic import did_you_mean
from pipecatapp.workflow.document.model import Node
from pipecatapp.workflow.document.shapes import ShapeError, fits, shape
from pipecatapp.workflow.expressions import ExpressionError, Read
from pipecatapp.workflow.plan import (
    Body,
    Jump,
    Kind,
    Limits,
    ModelChoice,
    Plan,
    PlanInput,
    PlanNode,
    PlanOutput,
    PlanWorkspace,
)
from pipecatapp.workflow.tool import Json, Tool


def compile_workflow(
    workflow: Workflow,
    tools: Mapping[str, Tool],
    prompts: Iterable[Prompt] = (),
    *,
    workflows: Mapping[str, Workflow] | None = None,
    roles: Mapping[str, Any] | None = None,
    projects: Mapping[str, Project] | None = None,
) -> Plan:
    """The frozen plan of a workflow; raises `InvalidDocument`."""
    project = (projects or {}).get(workflow.document.project or "")
    said = {**(roles or {}), **(project.roles if project else {})}
    bound = {name: ModelChoice.model_validate(choice) for name, choice in said.items()}
    known = {**(workflows or {}), workflow.id: workflow}
    library = Library(tools, tuple(prompts), known, bound, projects or {})
    library.want(workflow)
    for wanted in library.wanted:
        library.bodies[wanted.id] = _WorkflowCompiler(library, wanted).body()
    plan = Plan(
        workflow=workflow.id, bodies=library.bodies, roles=dict(library.roles), limits=Limits()
    )
    for wanted in library.wanted:
        library.faults += [
            wanted.source.diagnostic(finding.path, finding.message, finding.mend)
            for finding in checks.beyond(plan, wanted.id)
        ]
    library.faults += [
        document.source.diagnostic(path, finding.message, finding.mend, key=True)
        for document, path, node in library.renewed
        for finding in checks.unrepeatable(plan, node)
    ]
    if library.faults:
        raise InvalidDocument(library.faults)
    document = workflow.document
    limits = Limits.model_validate(document.limits.model_dump())
    begins = PlanWorkspace(**document.workspace.model_dump()) if document.workspace else None
    return plan.model_copy(update={"limits": limits, "workspace": begins})


class _WorkflowCompiler(Uses):
    """Compiles one document; faults go to the library."""

    def __init__(self, library: Library, workflow: Workflow) -> None:
        super().__init__(library, workflow)
        self._visits: dict[int, Json] = {}

    def body(self) -> Body:
        document = self.document
        for name, given in document.inputs.items():
            if not given.required and given.default is not None:
                self._typed(("inputs", name, "default"), given.type, given.default)
        self._check_schedule()
        names: dict[str, Json] = {"inputs": self.workflow.input_schema(), "run": RUN}
        project = self._project()
        if project is not None:
            names["project"] = schema_of(project)
        if document.workspace is not None:
            wanted = document.workspace.model_dump()
            self._read_all(("workspace",), wanted, Visible(names))
        order = "steps" if document.steps is not None else "graph"
        entries = list(flat((order,), document.steps or document.graph or []))
        visible = Visible(names, given=frozenset(names))
        nodes, gives = self._scope(order, entries, visible)
        everything = Visible({**names, **gives})
        for name, out in document.outputs.items():
            self._read_all(("outputs", name), out.value, everything)
        return Body(
            id=document.id,
            version=document.version,
            about=document.about,
            project=project,
            order="steps" if document.steps is not None else "graph",
            nodes=nodes,
            allow=None if document.allow is None else tuple(sorted(set(document.allow))),
            inputs={
                name: PlanInput(type=given.type, default=given.default, required=given.required)
                for name, given in document.inputs.items()
            },
            outputs={
                name: PlanOutput(value=out.value, type=out.type)
                for name, out in document.outputs.items()
            },
        )

    def _project(self) -> Json | None:
        """Return the values of the project that the document names."""
        if (name := self.document.project) is None:
            return None
        if name in self.library.projects:
            return self.library.projects[name].values
        known = did_you_mean(name, self.library.projects, otherwise="No project is saved")
        self._fault(("project",), f"there is no project {name!r}", known)
        return {}

    def _check_schedule(self) -> None:
        """Check the inputs of the schedule against the inputs of the workflow."""
        if (schedule := self.document.schedule) is None:
            return
        for name, value in schedule.inputs.items():
            if (takes := self.document.inputs.get(name)) is None:
                mend = did_you_mean(name, self.document.inputs, otherwise="It takes nothing")
                path = ("schedule", "inputs", name)
                self._fault(path, f"there is no input {name!r}", mend, key=True)
            else:
                self._typed(("schedule", "inputs", name), takes.type, value)
        for name, takes in self.document.inputs.items():
            if takes.required and name not in schedule.inputs:
                mend = f"Add `{name}: …` to `schedule.inputs`"
                self._fault(("schedule",), f"the input {name!r} has no value", mend)

    def _scope(
        self, order: str, entries: list[Entry], outer: Visible
    ) -> tuple[tuple[PlanNode, ...], dict[str, Json]]:
        """Return the nodes of a scope, and the output schema of each."""
        gives = {entry.node.id: self._gives(entry.node) for entry in entries}
        barred = {e.node.id: "a goto has no output" for e in entries if e.node.goto is not None}
        again = back_over(order, [entry.node for entry in entries])
        siblings = set(gives)
        order_of = {entry.node.id: index for index, entry in enumerate(entries)}
        nodes: list[PlanNode] = []
        for index, entry in enumerate(entries):
            name = entry.node.id
            later = Later(order_of, index) if order == "steps" else {}
            unread = Layered(later, {name: "a node cannot read itself"}, barred)
            visible = outer.among(gives, unread)
            if name in again:
                visible = visible.again({"type": "object", "properties": gives})
            before = entries[index - 1].node.id if order == "steps" and index else None
            node = self._node(entry, visible, siblings, before)
            nodes.append(node.model_copy(update={"again": name in again}))
        places = {entry.node.id: entry.path for entry in entries}
        found = (*checks.cycles(nodes), *checks.never(nodes), *checks.jumps(order, nodes))
        for finding in found:
            path = (*places[str(finding.path[0])], *(finding.path[1:] or ("id",)))
            self._fault(path, finding.message, finding.mend)
        return tuple(nodes), gives

    def _node(
        self, entry: Entry, visible: Visible, siblings: set[str], before: str | None
    ) -> PlanNode:
        node, path = entry.node, entry.path
        reads = self._read_all((*path, "if"), node.when, visible)
        inside, around = self._loop(entry, visible)
        reads += around
        reads += self._read_all((*path, "with"), node.given, inside)
        if node.model is not None:
            said = {"use": node.model.use, "escalate": node.model.escalate}
            reads += self._read_all((*path, "model"), said, inside)
        self._check_needs(entry, siblings, visible)
        inner, inner_reads = self._inner(entry, inside)
        after = inside.after(node, {node.id: self._visit(node)})
        checked = self._read_all((*path, "check"), node.check, after)
        reads += [read for read in checked if read.path[0] not in after.given]
        self._check_item(entry, visible)
        self._check_where(entry)
        reads = [read for read in reads if read.path[0] not in inside.given]
        names = [str(read.path[0]) for read in reads]
        hard = [str(read.path[0]) for read in reads if not read.soft]
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
            "check": _conditions(node),
            "loop": loop_facts(node),
            **_ways_on(node),
        }
        made = PlanNode(**{**common, **self._use(entry, inside)})
        if made.renewals:
            self.library.renewed.append((self.workflow, (*path, "retry"), made))
        return made

    def _loop(self, entry: Entry, visible: Visible) -> tuple[Visible, list[Read]]:
        """Return the names that a node can read inside its loop, and the reads of the loop
        itself."""
        node, path, visit = entry.node, entry.path, self._visit(entry.node)
        if node.each is not None:
            reads = self._read_all((*path, "for"), node.each.each, visible)
            inside = visible.again(visit, **{node.each.name: self._item(entry, visible)})
            if node.each.parallel > 1:
                inside = inside.without("prev", "these visits run at the same time")
            return inside, reads
        if not loops(node):
            return visible, []
        inside = visible.again(visit)
        made = visit.get("properties", {}) if node.use is None else {}
        after = inside.after(node, {**made, node.id: visit})
        reads = self._read_all((*path, "while"), node.during, inside)
        later = self._read_all((*path, "until"), node.until, after)
        later += self._read_all((*path, "stuck_on"), node.stuck_on, after)
        return inside, reads + [read for read in later if read.path[0] not in after.given]

    def _item(self, entry: Entry, visible: Visible) -> Json:
        """The schema of one item of a `for`."""
        each = entry.node.each
        if each is None or not isinstance(each.each, str):
            return {}
        try:
            kind, root = self._kind(each.each, visible)
        except (ShapeError, ExpressionError):
            return {}
        if not fits(kind, {"type": "array"}, given_root=root, wanted_root={}):
            told = f"`for` needs a list, but this is {kind.get('type')}"
            self._fault((*entry.path, "for", "each"), told)
        items: Json = kind.get("items", {})
        return {} if "$ref" in items else items

    def _check_item(self, entry: Entry, visible: Visible) -> None:
        name = entry.node.each.name if entry.node.each else None
        taken = name == entry.node.id or name in visible.known
        if name is not None and taken and name not in visible.given:
            told = f"the name {name!r} is taken"
            self._fault((*entry.path, "for"), told, "Choose another with `as`")

    def _check_where(self, entry: Entry) -> None:
        """Only what starts programs can start them elsewhere."""
        tool = self.library.tools.get(entry.node.use or "")
        starts = tool is not None and (tool.effect == "exec" or tool.name == "agent")
        if entry.node.where != "local" and not starts:
            told = "`where` belongs to a node that runs programs"
            self._fault((*entry.path, "where"), told, "Move it to that node", key=True)

    def _inner(self, entry: Entry, visible: Visible) -> tuple[tuple[PlanNode, ...], set[str]]:
        """The nodes of a nested scope, and the names around it that they read."""
        node = entry.node
        if node.steps is None and node.graph is None:
            return (), set()
        order = "steps" if node.steps is not None else "graph"
        entries = list(flat((*entry.path, order), node.steps or node.graph or []))
        nodes, gives = self._scope(order, entries, visible)
        return nodes, {name for name in _all_reads(nodes) if name not in gives}

    def _use(self, entry: Entry, visible: Visible) -> dict[str, Any]:
        """Return the fields of the plan that depend on the tool or workflow of a node."""
        node = entry.node
        if node.use is None:
            kind: Kind = "steps" if node.steps is not None else "graph"
            return {"kind": "goto" if node.goto is not None else kind}
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

    def _gives(self, node: Node) -> Json:
        """The schema of a node's output; `{}` where nothing is known."""
        return looped(self._visit(node)) if loops(node) else self._visit(node)

    def _visit(self, node: Node) -> Json:
        """Return the output schema of one visit of a node; each is created once."""
        if (known := self._visits.get(id(node))) is None:
            known = self._visits[id(node)] = self._visited(node)
        return known

    def _visited(self, node: Node) -> Json:
        if node.use is None:
            inner = flat((), [*(node.steps or []), *(node.graph or [])])
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


def _ways_on(node: Node) -> dict[str, Any]:
    """Return the jump of a node, and its continuation after a failure."""
    error, goto = node.on_error, node.goto
    return {
        "jump": Jump(to=goto, max=node.max, on_max=node.on_max) if goto is not None else None,
        "on_error": error.then,
        "rescue": Jump(to=error.goto, max=error.max) if error.goto is not None else None,
        "cache": node.cache or "auto",
        "pinned": node.pinned,
        "workspace": node.workspace,
        "where": node.where,
        **retries(node.retry),
    }


def _conditions(node: Node) -> dict[str, bool | str]:
    """Return the conditions of `check`, by the message for each that is not met."""
    if isinstance(node.check, dict):
        return node.check
    return {f"it is not true that {condition}": condition for condition in node.check}


def _all_reads(nodes: Iterable[PlanNode]) -> Iterator[str]:
    for node in nodes:
        yield from node.reads
        inner = {child.id for child in node.nodes}
        yield from (name for name in _all_reads(node.nodes) if name not in inner)
