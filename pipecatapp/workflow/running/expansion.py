"""The tool `plan.run`: runs a workflow that was written during its run.

The engine opens it as a separate scope, with one instance for each of its steps. Its plan is stored
with the step, so a resumed run continues with the plan with which it started.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, Final

from pydantic import BaseModel, Field

from pipecatapp.workflow.declaring import tool
from pipecatapp.workflow.document.diagnostic import InvalidDocument
from pipecatapp.workflow.document.shapes import ShapeError
from pipecatapp.workflow.ledger.reading import StepRow
from pipecatapp.workflow.plan import NotGranted, Plan, PlanNode, granting, narrowed
from pipecatapp.workflow.running.scope import Scope
from pipecatapp.workflow.tool import BY_AUTHOR, Context, Effect, InputRefused, Json, ToolFailed

PLAN_RUN: Final = "plan.run"
MOST_NODES: Final = 50
"""Nodes of a plan, unless a document allows another number."""


class PlanResults(BaseModel):
    """The outputs of the steps of a plan."""

    outputs: dict[str, Any] = Field(description="The outputs of the plan's document.")
    steps: dict[str, Any] = Field(
        description="The output of each step that ran, by its path in the plan."
    )


@tool(PLAN_RUN, effect="pure", version=1)
async def plan_run(
    ctx: Context,
    document: Annotated[str, BY_AUTHOR, Field(description="The workflow to run, as YAML.")],
    allow: Annotated[
        list[Effect],
        BY_AUTHOR,
        Field(description="The effects that its steps may have; never more than the run may."),
    ],
    inputs: Annotated[dict[str, Any], BY_AUTHOR, Field(description="The inputs of it.")] = {},  # noqa: B006
    max_nodes: Annotated[
        int, BY_AUTHOR, Field(description="Nodes that it may have.", ge=1, le=500)
    ] = MOST_NODES,
) -> PlanResults:
    """Run a workflow that was planned in this run, as a part of this run.

    Where a loop runs several plans, a step with the same input as in an earlier one, in the same
    files, is not run again.
    """
    raise ToolFailed(f"{PLAN_RUN} is a node of a workflow; {ctx.path or 'a model'} cannot call it.")


def freeze(given: Json, compiled: Callable[[str], Plan], granted: frozenset[Effect]) -> Json:
    """The input of a plan's step, with the compiled plan instead of its document.

    Raises `ShapeError` for a plan that is wrong, too large, or needs an effect that is not granted.
    """
    try:
        accepted = plan_run.accept(given).model_dump()
        plan = compiled(accepted["document"])
        plan = granting(plan, narrowed(granted, accepted["allow"]))
    except (InputRefused, InvalidDocument, NotGranted) as error:
        raise ShapeError(f"the plan cannot run: {error}") from error
    if (many := _count(plan.body.nodes)) > accepted["max_nodes"]:
        told = f"it has {many} nodes, and {accepted['max_nodes']} are allowed"
        raise ShapeError(f"the plan cannot run: {told}")
    return {"plan": plan.model_dump(mode="json"), "inputs": accepted["inputs"]}


def frozen(step: StepRow | None, value: Callable[[str | None], Any]) -> Json | None:
    """Return the input of a plan's step that has started, as stored with the step."""
    given: Json | None = value(step.input) if step is not None and step.input else None
    return given


def plans_of(steps: Iterable[StepRow], value: Callable[[str | None], Any]) -> dict[str, Plan]:
    """Return the started plans of a run, by the node that runs them; the last one of each node."""
    found = {}
    for step in steps:
        given = frozen(step, value) if step.tool == PLAN_RUN else None
        if given is not None:
            found[step.node] = Plan.model_validate(given["plan"])
    return found


def flat_results(scope: Scope) -> Json:
    """Return the outputs of the calls of a scope and its inner scopes, by path."""
    return dict(_flat(scope.nodes, scope.results(), ""))


def _flat(nodes: tuple[PlanNode, ...], results: Json, outer: str) -> Iterator[tuple[str, Any]]:
    for node in nodes:
        path = f"{outer}/{node.id}" if outer else node.id
        if node.id in results:
            if node.kind in ("steps", "graph") and node.loop is None:
                yield from _flat(node.nodes, results[node.id], path)
            else:
                yield path, results[node.id]


def _count(nodes: tuple[PlanNode, ...]) -> int:
    return sum(1 + _count(node.nodes) for node in nodes)
