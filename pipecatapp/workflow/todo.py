"""The to-do list of a run: the steps of its plans, and what a person has struck or added."""

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import BaseModel

from pipecatapp.workflow.ledger import inbox
from pipecatapp.workflow.ledger.reading import Reader, RunRow, StepRow
from pipecatapp.workflow.plan import Plan, PlanNode
from pipecatapp.workflow.running.expansion import PLAN_RUN, frozen

TODO_TOOL = "plan.todo"
"""The tool with which a workflow reads items that a person has added."""

State = Literal["open", "running", "waiting", "done", "failed", "cancelled", "struck"]


class NotStruck(ValueError):
    """The item cannot be removed, because it has started."""


class NoTodo(ValueError):
    """The run accepts no further items."""


class TodoItem(BaseModel):
    """One item: a step of a plan, or what a person has added and no plan has taken up yet."""

    id: str
    """Its path in the plan; `added-1` for an item that is not planned yet."""
    path: str
    """The path of its step in the run; empty while it is not planned."""
    text: str
    state: State
    by: str = ""
    """The person that struck or added it."""


def todo_list(reader: Reader, row: RunRow, steps: Sequence[StepRow]) -> list[TodoItem]:
    """The to-do list of a run, in the order of its plans; a later plan replaces equal items."""
    struck = inbox.struck(reader, row.id)
    known = {step.path: step for step in steps}
    items: dict[str, TodoItem] = {}
    for step in steps:
        given = frozen(step, reader.value) if step.tool == PLAN_RUN else None
        if given is not None:
            for id, node in leaves(Plan.model_validate(given["plan"]).body.nodes):
                path = f"{step.path}/{id}"
                items[id] = _item(id, path, node.about, known.get(path), struck.get(path, ""))
    added = inbox.added(reader, row.id)
    taken = taken_up(steps, reader)
    waiting = [
        TodoItem(id=f"added-{number}", path="", text=item.text, state="open", by=item.by)
        for number, item in enumerate(added, 1)
        if number > taken
    ]
    return [*items.values(), *waiting]


def taken_up(steps: Sequence[StepRow], reader: Reader) -> int:
    """How many of the added items the run has read."""
    read = [
        reader.value(step.output) or {}
        for step in steps
        if step.tool == TODO_TOOL and step.status == "done"
    ]
    return max((int(one.get("taken", 0)) for one in read), default=0)


def leaves(nodes: Sequence[PlanNode], outer: str = "") -> list[tuple[str, PlanNode]]:
    """The nodes of a plan that call something, by their path in it."""
    found: list[tuple[str, PlanNode]] = []
    for node in nodes:
        path = f"{outer}/{node.id}" if outer else node.id
        if node.kind in ("steps", "graph"):
            found += leaves(node.nodes, path)
        else:
            found.append((path, node))
    return found


def _item(id: str, path: str, text: str, step: StepRow | None, by: str) -> TodoItem:
    states: Mapping[str, State] = {"queued": "running", "skipped": "struck"}
    if step is None:
        state: State = "struck" if by else "open"
    else:
        state = states.get(step.status, step.status)  # type: ignore[arg-type]
    return TodoItem(id=id, path=path, text=text, state=state, by=by)
