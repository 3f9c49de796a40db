"""Warnings: the workflow can run, but probably not as intended."""

from pipecatapp.workflow.compiling.checks import apart
from pipecatapp.workflow.document import Diagnostic, Workflow
from pipecatapp.workflow.plan import Plan


def warnings_of(workflow: Workflow, plan: Plan) -> list[Diagnostic]:
    """Return a warning for each node of a graph that has no connection."""
    places = {node.id: index for index, node in enumerate(workflow.document.graph or ())}
    mend = "Read it, name it in `needs`, or remove it"
    return [
        workflow.source.diagnostic(
            ("graph", places[name], "id") if name in places else ("graph",),
            f"{name!r} is not connected to an output of the workflow",
            mend,
        )
        for name in apart(plan.body)
    ]
