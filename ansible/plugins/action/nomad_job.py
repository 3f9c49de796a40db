"""Thin on purpose: arguments in, `hearth.cluster.jobs` does the work, allocations out."""

from pathlib import Path
from typing import Any, ClassVar

from ansible.plugins.action import ActionBase
from hearth.cluster.action import ControllerAction, TaskArgs
from hearth.cluster.endpoint import ARGUMENTS, endpoint_of
from hearth.cluster.errors import NotFound, Unreachable
from hearth.cluster.jobs.deploy import Jobs, Source
from hearth.cluster.jobs.state import State, state_of
from hearth.cluster.nomad import Allocation, Nomad


class ActionModule(ControllerAction, ActionBase):  # type: ignore[misc]
    """Keeps a job of Nomad."""

    spec: ClassVar[dict[str, Any]] = {
        "argument_spec": {
            **ARGUMENTS,
            "src": {"type": "path"},
            "variables": {"type": "dict", "default": {}},
            "job": {"type": "str"},
            "state": {
                "type": "str", "choices": ["present", "healthy", "absent"], "default": "present",
            },
            "purge": {"type": "bool", "default": False},
            "wait": {"type": "str", "choices": ["always", "update"], "default": "always"},
            "wait_timeout": {"type": "float", "default": 600.0},
        },
        "required_if": [
            ("state", "present", ("src",)),
            ("state", "healthy", ("job",)),
            ("state", "absent", ("job",)),
        ],
    }  # fmt: skip

    def work(self, task: TaskArgs) -> dict[str, Any]:
        is_present = task.params["state"] == "present"
        if task.params["state"] == "healthy" and task.check_mode:
            return {"changed": False, "job": task.params["job"]}
        try:
            with Nomad(endpoint_of(task.params)) as nomad:
                match task.params["state"]:
                    case "present":
                        return present(task, Jobs(nomad))
                    case "healthy":
                        return healthy(task, Jobs(nomad))
                    case _:
                        return absent(task, nomad)
        except Unreachable as error:
            if not task.check_mode:
                raise
            # A Nomad that is not there yet has nothing that could be taken away.
            nothing = {"changed": False, "job": task.params["job"]}
            return unseen(task, error) if is_present else nothing


def present(task: TaskArgs, jobs: Jobs) -> dict[str, Any]:
    """Plan, register, wait; what the module answers."""
    path = Path(task.params["src"])
    source = Source(str(path), path.read_text(encoding="utf-8"), task.params["variables"])
    plan = jobs.plan(source)
    if plan.warnings:
        task.warn(f"{path}: {plan.warnings}")
    answer: dict[str, Any] = {
        "changed": plan.changed,
        "revived": False,
        "job": plan.id,
        "unplaced": plan.unplaced,
        "diff": {"before": plan.before, "after": plan.after, "after_header": str(path)},
    }
    if task.check_mode:
        return answer
    if plan.changed:
        jobs.register(plan)
    elif plan.waits and is_down(state_of(jobs.nomad, plan.id)):
        jobs.reschedule(plan.id)
        answer["changed"] = answer["revived"] = True
    is_new = plan.index == 0
    if plan.waits and not (is_new and task.params["wait"] == "update"):
        answer["allocations"] = _rows(jobs.wait(plan.id, timeout=task.params["wait_timeout"]))
    return answer


def is_down(state: State) -> bool:
    """Whether something of the job has failed that Nomad does not try again by itself."""
    return bool(state.failed or state.abandoned)


def healthy(task: TaskArgs, jobs: Jobs) -> dict[str, Any]:
    """Wait for a job that is registered; what the module answers."""
    job = task.params["job"]
    running = jobs.wait(job, timeout=task.params["wait_timeout"])
    return {"changed": False, "job": job, "allocations": _rows(running)}


def absent(task: TaskArgs, nomad: Nomad) -> dict[str, Any]:
    """Stop what runs; what the module answers."""
    job, purge = task.params["job"], task.params["purge"]
    try:
        stopped = bool(nomad.job(job)["Stop"])
    except NotFound:
        return {"changed": False, "job": job}
    changed = purge or not stopped
    if changed and not task.check_mode:
        nomad.stop(job, purge=purge)
    after = "" if purge else f'job "{job}", stopped\n'
    return {
        "changed": changed,
        "job": job,
        "diff": {"before": f'job "{job}"\n' if changed else after, "after": after},
    }


def unseen(task: TaskArgs, error: Unreachable) -> dict[str, Any]:
    """In check mode before there is a Nomad: the whole file, as new."""
    task.warn(f"{error} The whole job is shown as new.")
    path = Path(task.params["src"])
    text = path.read_text(encoding="utf-8")
    return {
        "changed": True,
        "job": path.name.partition(".")[0],
        "unplaced": {},
        "diff": {"before": "", "after": text, "after_header": str(path)},
    }


def _rows(allocations: list[Allocation]) -> list[dict[str, str]]:
    return [{"id": a.id, "group": a.group, "node": a.node} for a in allocations]
