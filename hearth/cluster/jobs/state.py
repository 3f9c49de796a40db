"""The state of the newest version of a job."""

from dataclasses import dataclass

from hearth.cluster.endpoint import Json
from hearth.cluster.jobs import failure
from hearth.cluster.nomad import Allocation, Deployment, Evaluation, Nomad


@dataclass(frozen=True)
class State:
    """The newest version of a job: deployment, allocations, and groups without a machine."""

    job: Json
    deployment: Deployment | None
    allocations: list[Allocation]
    evaluated: bool
    unplaced: dict[str, str]

    @property
    def running(self) -> list[Allocation]:
        return [a for a in self.allocations if a.runs]

    @property
    def unhealthy(self) -> list[Allocation]:
        """Allocations that do not run, or run and are not healthy; newest first."""
        return [
            a
            for a in self.allocations
            if a.client_status in {"failed", "lost", "pending"}
            or (a.client_status == "running" and a.healthy is False)
        ]

    @property
    def abandoned(self) -> list[Allocation]:
        """Failed allocations without a successor. Nomad tries a system job once on each machine,
        also on one that has just joined and has no programs yet."""
        return [
            a
            for a in self.allocations
            if (a.client_status, a.desired_status) == ("failed", "run") and not self._replaced(a)
        ]

    @property
    def pending(self) -> list[Allocation]:
        """Running allocations whose checks have not passed for long enough; newest first."""
        return [a for a in self.running if a.healthy is None]

    @property
    def wanted(self) -> int | None:
        """How many allocations there should be; None for a system job, which fills the cluster."""
        if self.job["Type"] in {"system", "sysbatch"}:
            return None
        return sum(int(group["Count"]) for group in self.job["TaskGroups"])

    @property
    def failed(self) -> str:
        """How the job failed; empty while it may still succeed."""
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
        """Whether as many run as are wanted, and nothing failed that has no successor.

        An allocation on an unreachable machine (`unknown`) does not count. When the machine is
        back, Nomad may keep that allocation and stop its successor, which stays its successor.
        """
        desired = [a for a in self.allocations if a.desired_status == "run"]
        up = [a for a in desired if a.client_status in {"running", "complete"}]
        if any(not self._replaced(a) for a in desired if a not in up and not _is_away(a)):
            return False
        return self.wanted is None or len(up) >= self.wanted

    def _replaced(self, allocation: Allocation) -> bool:
        """Whether an allocation has a successor, which those of system jobs do not name."""
        return bool(allocation.next_allocation) or any(
            (a.group, a.node_id) == (allocation.group, allocation.node_id)
            and a.create_index > allocation.create_index
            for a in self.allocations
        )


def _is_away(allocation: Allocation) -> bool:
    """Whether the machine of an allocation is unreachable."""
    return allocation.client_status == "unknown"


def state_of(nomad: Nomad, job: str) -> State:
    """Request the state of a job. Raises `NotFound`."""
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
    """Return group -> why it has no machine, from the newest evaluation that is blocked."""
    for evaluation in evaluations:
        if evaluation.status == "blocked" or evaluation.failed_groups:
            return {
                group: failure.why_unplaced(metric)
                for group, metric in evaluation.failed_groups.items()
            }
    return {}
