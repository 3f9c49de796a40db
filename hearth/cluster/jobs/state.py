"""How the newest version of a job does."""

from dataclasses import dataclass

from hearth.cluster.endpoint import Json
from hearth.cluster.jobs import failure
from hearth.cluster.nomad import Allocation, Deployment, Evaluation, Nomad


@dataclass(frozen=True)
class State:
    """The newest version of a job: deployment, allocations, and which groups found no place."""

    job: Json
    deployment: Deployment | None
    allocations: list[Allocation]
    evaluated: bool
    unplaced: dict[str, str]

    @property
    def running(self) -> list[Allocation]:
        return [a for a in self.allocations if a.runs]

    @property
    def ailing(self) -> list[Allocation]:
        """Those that do not run, or run and are not healthy; newest first."""
        return [
            a
            for a in self.allocations
            if a.client_status in {"failed", "lost", "pending"}
            or (a.client_status == "running" and a.healthy is False)
        ]

    @property
    def abandoned(self) -> list[Allocation]:
        """Those that failed, and whose place nothing has taken. Nomad tries a system job once on a
        machine: on one that has just joined, before its programs were there."""
        return [
            a
            for a in self.allocations
            if (a.client_status, a.desired_status) == ("failed", "run") and not self._replaced(a)
        ]

    @property
    def unproved(self) -> list[Allocation]:
        """Those that run while their checks have not passed for long enough; newest first."""
        return [a for a in self.running if a.healthy is None]

    @property
    def wanted(self) -> int | None:
        """How many allocations there should be; None for a system job, which fills the cluster."""
        if self.job["Type"] in {"system", "sysbatch"}:
            return None
        return sum(int(group["Count"]) for group in self.job["TaskGroups"])

    @property
    def failed(self) -> str:
        """Why waiting longer is in vain, as what the job did; empty while there is hope."""
        if self.deployment is not None and self.deployment.status in {"failed", "cancelled"}:
            return f"was not deployed ({self.deployment.description.rstrip('.')})"
        batch = [a for a in self.allocations if a.client_status == "failed"]
        if self.job["Type"] == "batch" and batch and not self.running:
            return "failed"
        return ""

    @property
    def done(self) -> bool:
        if self.deployment is not None:
            return self.deployment.status == "successful" and self._all_run()
        return self.evaluated and not self.unplaced and self._all_run()

    def _all_run(self) -> bool:
        wished = [
            a
            for a in self.allocations
            if a.desired_status == "run" and not self._replaced(a) and not self._is_away(a)
        ]
        if any(a.client_status not in {"running", "complete"} for a in wished):
            return False
        return self.wanted is None or len(wished) >= self.wanted

    def _is_away(self, one: Allocation) -> bool:
        """Whether its machine is cut off or asleep: a system job has nobody to take its place."""
        return self.wanted is None and one.client_status == "unknown"

    def _replaced(self, one: Allocation) -> bool:
        """Whether another one took its place; those of system jobs do not name their successor."""
        return bool(one.next_allocation) or any(
            (a.group, a.node_id) == (one.group, one.node_id) and a.create_index > one.create_index
            for a in self.allocations
        )


def state_of(nomad: Nomad, job: str) -> State:
    """Ask Nomad how a job does; raises `NotFound`."""
    specification = nomad.job(job)
    version = specification["Version"]
    deployment = nomad.last_deployment(job)
    if deployment is not None and deployment.version != version:
        deployment = None
    index = specification["JobModifyIndex"]
    evaluations = [e for e in nomad.evaluations(job) if e.job_index == index]
    return State(
        job=specification,
        deployment=deployment,
        allocations=[a for a in nomad.allocations(job) if a.version == version],
        evaluated=any(e.status == "complete" for e in evaluations),
        unplaced=_unplaced(evaluations),
    )


def _unplaced(evaluations: list[Evaluation]) -> dict[str, str]:
    """Why groups wait for a place, in the words of the newest evaluation that still waits."""
    for evaluation in evaluations:
        if evaluation.status == "blocked" or evaluation.failed_groups:
            return {
                group: failure.why_unplaced(metric)
                for group, metric in evaluation.failed_groups.items()
            }
    return {}
