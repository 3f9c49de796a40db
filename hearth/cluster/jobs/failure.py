"""Explain why an allocation does not run: machine, cause and remedy."""

from typing import Final

from hearth.cluster.endpoint import Json
from hearth.cluster.errors import ClusterError
from hearth.cluster.nomad import Allocation, Event, Nomad, Task

PLACE_REMEDY: Final = "Make room, or loosen what the job asks for."
REMEDIES: Final = {
    "Failed to pull": "Load the image there, or let the machine reach the registry.",
    "missing drivers": "Run the playbook on that machine, then look at `nomad node status`.",
    "no such file": "Run the playbook on that machine: the program is not installed.",
    "OOM": "Give the task more memory, or the expert a smaller model.",
    "not healthy": "Its health check fails: the log below tells what it waits for.",
}
SHOWN_EVENTS: Final = 3
SHOWN_LINES: Final = 12
TELLING: Final = {
    "Driver Failure", "Setup Failure", "Failed Validation", "Terminated", "Not Restarting",
    "Failed Artifact Download", "Template", "Alloc Unhealthy", "Restart Signaled", "Killing",
    "Task hook failed", "Leader Task Dead", "Restarting",
}  # fmt: skip


def why_unplaced(metric: Json) -> str:
    """Describe the scheduler's metric of a group that it could not place, in one phrase."""
    reasons = [f"{why} on {n}" for why, n in (metric.get("ConstraintFiltered") or {}).items()]
    reasons += [
        f"not enough {what} on {n}" for what, n in (metric.get("DimensionExhausted") or {}).items()
    ]
    reasons += [f"{what} used up" for what in metric.get("QuotaExhausted") or []]
    if metric.get("NodesEvaluated", 0) == 0:
        reasons.append("no machine is ready")
    return "; ".join(reasons) or "no machine fits"


def cause(allocation: Allocation) -> str:
    """Describe in one phrase on which machine an allocation failed, and why."""
    events = [event for task in allocation.tasks.values() for event in _telling(task)]
    why = events[-1].message.strip() if events else "no event tells why"
    return f"failed on {allocation.node} ({why})"


def explain(nomad: Nomad, allocation: Allocation) -> list[str]:
    """Describe each failed task: machine, events, remedy and the end of its log."""
    lines: list[str] = []
    for name, task in allocation.tasks.items():
        if not _is_well(task, allocation):
            lines += _task(nomad, allocation, name, task)
    if not lines:
        lines.append(
            f"{allocation.node}: allocation {allocation.id[:8]} is {allocation.client_status}; "
            f"`nomad alloc status {allocation.id[:8]}` tells more."
        )
    return lines


def explain_pending(nomad: Nomad, allocation: Allocation) -> list[str]:
    """Describe the events of a running allocation whose checks have not passed yet."""
    lines = [
        f"{allocation.node}: allocation {allocation.id[:8]} runs, but its checks have not passed"
        " for as long as its job asks."
    ]
    for name, task in allocation.tasks.items():
        lines += _task(nomad, allocation, name, task)
    return lines


def _is_well(task: Task, allocation: Allocation) -> bool:
    return (
        task.state == "running"
        and not task.failed
        and not task.restarts
        and allocation.healthy is not False
    )


def _task(nomad: Nomad, allocation: Allocation, name: str, task: Task) -> list[str]:
    telling = _telling(task)
    events = "; ".join(dict.fromkeys(e.message.strip() for e in telling[-SHOWN_EVENTS:]))
    times = f", restarted {task.restarts} times" if task.restarts else ""
    lines = [f"{allocation.node}: task {name} is {task.state}{times}: {events}"]
    remedy = next((r for words, r in REMEDIES.items() if words.lower() in events.lower()), "")
    see = f"`nomad alloc logs -stderr {allocation.id[:8]} {name}` shows all of its log."
    lines.append(f"  What to do: {remedy} {see}".replace("  `", " `"))
    for kind in ("stderr", "stdout"):
        try:
            tail = nomad.log_tail(allocation.id, name, kind).splitlines()[-SHOWN_LINES:]
        except ClusterError as error:
            return [*lines, f"  Its log cannot be read. {error}"]
        if tail:
            return [*lines, f"  The end of {kind}:", *(f"    {line}" for line in tail)]
    return lines


def _telling(task: Task) -> list[Event]:
    """Return the events that tell why a task does not run, or all events."""
    return [e for e in task.events if e.type in TELLING and e.message] or task.events
