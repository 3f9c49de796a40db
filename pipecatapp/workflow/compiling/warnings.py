"""What keeps nothing from running, and is seldom meant."""

from pipecatapp.workflow.compiling.checks import apart
from pipecatapp.workflow.document import Diagnostic, Workflow
from pipecatapp.workflow.plan import Plan


def warnings_of(workflow: Workflow, plan: Plan) -> list[Diagnostic]:
    """What stands aside in a graph, where it stands."""
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
