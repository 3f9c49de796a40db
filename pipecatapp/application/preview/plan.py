"""A plan for people: `hearth plan`."""

from collections.abc import Iterator, Mapping

from pipecatapp.application.preview.bounds import bound_text, bounds
from pipecatapp.workflow import Plan
from pipecatapp.workflow.expressions import is_expression
from pipecatapp.workflow.planning import EFFECTS, ModelChoice, PlanInput, PlanNode, loop_text


def plan_text(plan: Plan) -> str:
    """A plan for people: what runs in which order, what each tool may do, prompts, limits."""
    lines: list[str] = []
    for body in plan.bodies.values():
        lines += [
            f"workflow {body.id} (version {body.version})"
            + (f": {body.about}" if body.about else "")
        ]
        lines += [f"  input  {name}: {_type(given)}" for name, given in body.inputs.items()]
        if plan.workspace and body.id == plan.workflow:
            lines += [f"  workspace {plan.workspace.repo} at {plan.workspace.commit or 'HEAD'}"]
        lines += [f"  {line}" for line in _scope_text(plan, body.order, body.nodes)]
        lines += [
            f"  output {name}: {out.type} = {out.value}" for name, out in body.outputs.items()
        ]
    limits = [f"{name} {value:g}" for name, value in plan.limits if value is not None]
    effects = ", ".join(sorted(plan.effects())) or "nothing"
    granted = plan.granted()
    only = "" if granted == EFFECTS else f"; granted: {', '.join(sorted(granted)) or 'nothing'}"
    lines.append(f"effects: {effects}{only}")
    worst = bounds(plan)
    lines.append(f"worst case of own steps: {bound_text(worst.steps)}")
    lines.append(f"worst case of own model calls: {bound_text(worst.models)}")
    return "\n".join([*lines, f"limits: {', '.join(limits) or 'none'}"]) + "\n"


def _scope_text(plan: Plan, order: str, nodes: tuple[PlanNode, ...]) -> Iterator[str]:
    yield f"{order}:"
    for node in nodes:
        what = f"goto {node.jump.to}" if node.jump else node.use or node.kind
        yield f"  {node.id}: {what}" + (f" [{node.effect}]" if node.effect else "")
        yield from (f"      {line}" for line in _details(plan, node))
        if node.nodes:
            yield from (f"    {line}" for line in _scope_text(plan, node.kind, node.nodes))


def _details(plan: Plan, node: PlanNode) -> Iterator[str]:
    if node.unless:
        yield f"else of {node.unless}"
    if is_expression(node.when):
        yield f"if {node.when}"
    if after := sorted({*node.reads, *node.needs}):
        yield f"after {', '.join(after)}"
    if node.model:
        yield f"model {model_text(node.model, plan.roles)}"
    if node.where != "local":
        yield f"where {node.where}"
    if node.workspace == "fork":
        yield "in a separate folder, merged at the end"
    yield from _repeats(node)
    if node.timeout:
        yield f"timeout {node.timeout:g} s"
    yield from (f"check {condition}" for condition in node.check.values())
    yield from (f"with {name}: {value}" for name, value in node.given.items())
    yield from (f"prompt | {line}".rstrip() for line in node.system.splitlines())


def _repeats(node: PlanNode) -> Iterator[str]:
    """How often, and what follows a failure."""
    if node.loop:
        yield f"{loop_text(node.loop)}: {node.loop.over}"
        if node.loop.stuck_on:
            yield f"stuck on {node.loop.stuck_on}"
    for jump in (node.jump, node.rescue):
        if jump is not None and jump.max is not None:
            yield f"back to {jump.to} {jump.max} times at most, then {jump.on_max}"
    if node.cache != "auto":
        yield f"cache {node.cache}"
    if node.retries:
        yield f"{node.retries} times again when it fails"
    if node.on_error != "stop":
        yield f"on error {node.on_error}" + (f" {node.rescue.to}" if node.rescue else "")


def model_text(choice: ModelChoice, roles: Mapping[str, ModelChoice]) -> str:
    """Describe the selected model in words."""
    names = choice.escalate or choice.use
    said = [
        f"{' or '.join(roles[name].use)} (role {name})" if name in roles else name for name in names
    ]
    told = (", then " if choice.escalate else ", or else ").join(said)
    wants = choice.wants
    for name in choice.use:
        wants = wants.and_also(roles[name].wants) if name in roles else wants
    return f"{told}; {wants}" if str(wants) else told


def _type(given: PlanInput) -> str:
    return f"{given.type}" if given.required else f"{given.type} = {given.default!r}"
