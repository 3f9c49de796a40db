"""How a job does, told from its allocations."""

from hearth.cluster.jobs.failure import cause
from hearth.cluster.jobs.state import State
from hearth.cluster.nomad import Allocation, Task


def allocation(index: int, status: str, **more: str) -> Allocation:
    """One of node1, in the order of `index`."""
    return Allocation.model_validate(
        {
            "ID": str(index), "JobID": "web", "TaskGroup": "web", "NodeName": "node1",
            "NodeID": "1", "ClientStatus": status, "DesiredStatus": "run", "CreateIndex": index,
            **more,
        }
    )  # fmt: skip


def test_cause_names_the_machine_and_the_last_event_that_tells_why() -> None:
    """The last event is often `Not Restarting`, which tells nothing without a message."""
    events = [
        {"Type": "Received", "DisplayMessage": "Task received by client"},
        {"Type": "Setup Failure", "DisplayMessage": "failed to setup alloc: no leader"},
        {"Type": "Not Restarting", "DisplayMessage": ""},
    ]
    tasks = {"worker": {"State": "dead", "Failed": True, "Events": events}}
    failed = allocation(1, "failed").model_copy(
        update={"tasks": {name: Task.model_validate(task) for name, task in tasks.items()}}
    )

    assert cause(failed) == "failed on node1 (failed to setup alloc: no leader)"
    assert cause(allocation(2, "failed")) == "failed on node1 (no event tells why)"


def state(type: str, *allocations: Allocation) -> State:
    job = {"Type": type, "TaskGroups": [{"Count": 1}]}
    return State(job, None, list(allocations), evaluated=True, unplaced={})


def test_system_job_is_done_when_what_failed_was_placed_again() -> None:
    """Nomad goes on to list what failed as wished, and names no successor of it."""
    assert state("system", allocation(1, "failed"), allocation(2, "running")).done


def test_job_whose_last_allocation_failed_is_not_done() -> None:
    """What ran before does not run now."""
    assert not state("system", allocation(1, "complete"), allocation(2, "failed")).done
    assert not state("service", allocation(1, "failed", NextAllocation="2")).done


def test_system_job_is_done_without_the_machine_that_is_away() -> None:
    """A playbook must not wait for a machine that sleeps."""
    away = allocation(1, "unknown")

    assert state("system", away, allocation(2, "running", NodeID="2")).done


def test_service_is_done_when_as_many_run_as_are_wanted_on_machines_that_answer() -> None:
    """What runs on a machine that was cut off is not known, and its successor may still start."""
    away = allocation(1, "unknown", NextAllocation="2")

    assert not state("service", away).done
    assert not state("service", away, allocation(2, "pending", NodeID="2")).done
    assert state("service", away, allocation(2, "running", NodeID="2")).done


def test_service_is_done_when_nomad_stopped_the_successor_of_what_came_back() -> None:
    """It goes on to name the stopped allocation as the successor of the one that it kept."""
    kept = allocation(1, "running", NextAllocation="2")
    stopped = allocation(2, "complete", NodeID="2", DesiredStatus="stop")

    assert state("service", kept, stopped).done
