"""Compare jobs with their files, and running allocations with the declared ones."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hearth.cluster.drift.finding import Finding, Fix
from hearth.cluster.errors import ClusterError, JobInvalid, NotFound
from hearth.cluster.jobs import failure
from hearth.cluster.jobs.deploy import Jobs, Plan, Source
from hearth.cluster.jobs.state import State, state_of
from hearth.cluster.nomad import Nomad


def diagnose(nomad: Nomad, files: Mapping[str, Path]) -> Iterator[Finding]:
    """Find differences of the declared jobs; `files`: job -> its file in nomad_jobs/."""
    for job, file in sorted(files.items()):
        yield from _job(nomad, job, file)
    for row in nomad.jobs():
        if row.id not in files and row.status != "dead" and "/" not in row.id:
            yield Finding(
                f"job:{row.id}",
                f"Nomad runs the job {row.id}, and no file of ours declares it",
                "data",
                Fix("by_hand", row.id, f"if nobody needs it: `nomad job stop {row.id}`"),
            )


def plan_of(nomad: Nomad, job: str, file: Path) -> Plan:
    """Plan a job's file with the variables of its last registration.

    Raises `NotFound` for an unknown job.
    """
    variables = _last_variables(nomad, job)
    return Jobs(nomad).plan(_Submitted(str(file), file.read_text(encoding="utf-8"), variables))


class _Submitted(Source):
    """A source whose variables are the text that Nomad stored."""

    def __init__(self, name: str, hcl: str, text: str) -> None:
        super().__init__(name, hcl)
        object.__setattr__(self, "_text", text)

    def values(self) -> str:
        return str(self._text)  # type: ignore[attr-defined]  # set through the frozen dataclass


def _last_variables(nomad: Nomad, job: str) -> str:
    """Return the variables of the newest version with a submission: a manual change has none."""
    versions: list[Any] = nomad.session.call("GET", f"job/{job}/versions")["Versions"]
    for version in sorted((v["Version"] for v in versions), reverse=True):
        try:
            submission = nomad.session.call(
                "GET", f"job/{job}/submission", params={"version": version}
            )
        except NotFound:
            continue
        if submission["Format"] == "hcl2":
            return str(submission["Variables"])
    return ""


def _job(nomad: Nomad, job: str, file: Path) -> Iterator[Finding]:
    try:
        plan = plan_of(nomad, job, file)
        state = state_of(nomad, job)
    except NotFound:
        role = file.name.partition(".")[0].replace("-", "_")
        fix = Fix("run_role", role, f"register it (role {role})", role=role)
        yield Finding(f"job:{job}", f"Nomad does not know the job {job}", "safe", fix)
        return
    except (JobInvalid, OSError) as error:
        fix = Fix("by_hand", job, f"correct {file}, or run playbook.yaml with its new variables")
        yield Finding(f"job:{job}", f"{file} cannot be planned: {error}", "data", fix)
        return
    if plan.changed:
        stopped = " (it was stopped)" if state.job["Stop"] else ""
        yield Finding(
            f"job:{job}",
            f"the job {job} differs from {file}{stopped}:\n{_lines(plan)}",
            "disruptive" if any(a.runs for a in nomad.allocations(job)) else "safe",
            Fix("register_job", job, f"register {file}"),
        )
    elif plan.waits:
        yield from _allocations(job, state)


def _allocations(job: str, state: State) -> Iterator[Finding]:
    runs, wanted = len(state.running), state.wanted
    starting = any(a.client_status == "pending" for a in state.allocations)
    busy = state.deployment is not None and not state.deployment.over
    if state.done or (wanted is not None and runs >= wanted and not state.failed):
        return
    reason = (
        state.failed
        or "; ".join(f"{g}: {w}" for g, w in state.unplaced.items())
        or "; ".join(failure.cause(allocation) for allocation in state.abandoned)
    )
    if not reason and (starting or busy):
        reason = "it is just being started"
    of = "" if wanted is None else f" of {wanted}"
    yield Finding(
        f"allocation:{job}",
        f"{job} has {runs}{of} running" + (f": {reason}" if reason else ""),
        "safe",
        Fix("revive_job", job, "evaluate it, with what failed forced to be placed again"),
    )


def _lines(plan: Plan) -> str:
    before, after = plan.before.splitlines(), plan.after.splitlines()
    removed = [f"- {line.strip()}" for line in before if line not in after]
    added = [f"+ {line.strip()}" for line in after if line not in before]
    return "\n".join((removed + added)[:20])


def reregister(nomad: Nomad, job: str, file: Path) -> None:
    """Register the file if it differs from the job. Raises `ClusterError`, also if it does not."""
    plan = plan_of(nomad, job, file)
    if plan.changed:
        Jobs(nomad).register(plan)
    else:
        raise ClusterError(f"The job {job} is as {file} says by now; nothing was registered.")
