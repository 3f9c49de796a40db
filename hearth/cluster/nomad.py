"""A typed client of Nomad, on python-nomad."""

import base64
from typing import Any

import nomad
from pydantic import Field, model_validator

from hearth.cluster.client import Client, Model
from hearth.cluster.endpoint import Endpoint, Json
from hearth.cluster.errors import NoLeader


class Row(Model):
    """A row in which Nomad writes null for empty fields, which then have their defaults."""

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: dict[str, Any]) -> dict[str, Any]:
        return {name: field for name, field in value.items() if field is not None}


class JobRow(Model):
    """One job: `status` is pending, running or dead; `stop`: a user stopped it."""

    id: str = Field(alias="ID")
    type: str = Field(alias="Type")
    status: str = Field(alias="Status")
    stop: bool = Field(default=False, alias="Stop")
    modify_index: int = Field(alias="JobModifyIndex")


class Event(Row):
    """An event of a task; `details` has the parts of the message by name."""

    type: str = Field(alias="Type")
    message: str = Field("", alias="DisplayMessage")
    details: dict[str, str] = Field(default_factory=dict, alias="Details")


class Task(Row):
    """A task of an allocation: `state` is pending, running or dead."""

    state: str = Field(alias="State")
    failed: bool = Field(alias="Failed")
    restarts: int = Field(0, alias="Restarts")
    events: list[Event] = Field(default_factory=list, alias="Events")


class Allocation(Row):
    """A group that was placed on a machine. `client_status`: pending, running, complete, failed,
    lost or unknown; `healthy` is None until a deployment has decided."""

    id: str = Field(alias="ID")
    job: str = Field(alias="JobID")
    group: str = Field(alias="TaskGroup")
    node: str = Field(alias="NodeName")
    node_id: str = Field(alias="NodeID")
    client_status: str = Field(alias="ClientStatus")
    desired_status: str = Field(alias="DesiredStatus")
    version: int = Field(0, alias="JobVersion")
    deployment: str = Field("", alias="DeploymentID")
    healthy: bool | None = None
    next_allocation: str = Field("", alias="NextAllocation")
    create_index: int = Field(0, alias="CreateIndex")
    tasks: dict[str, Task] = Field(default_factory=dict, alias="TaskStates")

    @property
    def runs(self) -> bool:
        return self.client_status == "running" and self.desired_status == "run"


class Deployment(Model):
    """`status`: running, paused, pending, successful, failed, cancelled, blocked …"""

    id: str = Field(alias="ID")
    job: str = Field(alias="JobID")
    version: int = Field(alias="JobVersion")
    job_index: int = Field(alias="JobSpecModifyIndex")
    status: str = Field(alias="Status")
    description: str = Field(alias="StatusDescription")

    @property
    def over(self) -> bool:
        return self.status in {"successful", "failed", "cancelled"}


class Evaluation(Row):
    """A decision of the scheduler; `failed_groups`: group -> why it found no machine."""

    id: str = Field(alias="ID")
    status: str = Field(alias="Status")
    description: str = Field("", alias="StatusDescription")
    job_index: int = Field(0, alias="JobModifyIndex")
    modify_index: int = Field(0, alias="ModifyIndex")
    deployment: str = Field("", alias="DeploymentID")
    next: str = Field("", alias="NextEval")
    failed_groups: dict[str, Json] = Field(default_factory=dict, alias="FailedTGAllocs")


class Node(Model):
    """A machine that runs jobs. `status`: initializing, ready, down or disconnected."""

    id: str = Field(alias="ID")
    name: str = Field(alias="Name")
    address: str = Field("", alias="Address")
    status: str = Field(alias="Status")
    eligible: str = Field(alias="SchedulingEligibility")
    drains: bool = Field(default=False, alias="Drain")
    version: str = Field("", alias="Version")


class Nomad(Client):
    """`with Nomad(Endpoint("https://10.0.0.11:4646", token=…, ca_file=…)) as nomad: …`

    Every method raises `ClusterError`.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint, header="X-Nomad-Token", index_header="X-Nomad-Index")
        self._library = nomad.Nomad(
            address=endpoint.url.rstrip("/"),
            token=endpoint.token,
            namespace="default",
            region="global",
            timeout=endpoint.timeout,
            verify=True,
            session=self.session,
        )

    def leader(self) -> str:
        """Return host:port of the leader; empty while there is none."""
        try:
            return str(self.session.call("GET", "status/leader") or "")
        except NoLeader:
            return ""

    def nodes(self) -> list[Node]:
        """Return every machine that is, or was, a client."""
        return [Node.model_validate(row) for row in self._library.nodes.get_nodes()]

    def jobs(self, prefix: str | None = None) -> list[JobRow]:
        """Return all jobs, or those whose id begins with `prefix`."""
        return [JobRow.model_validate(row) for row in self._library.jobs.get_jobs(prefix=prefix)]

    def job(self, job: str) -> Json:
        """Return the whole specification of a job."""
        found: Json = self._library.job.get_job(job)
        return found

    def allocations(self, job: str) -> list[Allocation]:
        """Return the allocations of a job, newest first."""
        rows = self._library.job.get_allocations(job)
        return sorted((_allocation(r) for r in rows), key=lambda a: a.create_index, reverse=True)

    def allocation(self, allocation: str) -> Allocation:
        """Return one allocation with the events of its tasks."""
        return _allocation(self._library.allocation.get_allocation(allocation))

    def evaluation(self, evaluation: str) -> Evaluation:
        """Return one decision of the scheduler."""
        return Evaluation.model_validate(self._library.evaluation.get_evaluation(evaluation))

    def evaluations(self, job: str) -> list[Evaluation]:
        """Return the decisions of the scheduler about a job, newest first."""
        rows = self._library.job.get_evaluations(job)
        found = [Evaluation.model_validate(row) for row in rows]
        return sorted(found, key=lambda e: e.modify_index, reverse=True)

    def last_deployment(self, job: str) -> Deployment | None:
        """Return the newest deployment of a job, None if it never had one."""
        found = self._library.job.get_deployment(job)
        return Deployment.model_validate(found) if found else None

    def evaluate(self, job: str, *, force_reschedule: bool = False) -> str:
        """Let the scheduler evaluate a job again, and return the id of the evaluation.

        `force_reschedule` also replaces failed allocations that have used up their attempts;
        python-nomad has no method for that.
        """
        body = {"JobID": job, "EvalOptions": {"ForceReschedule": force_reschedule}}
        return str(self.session.call("POST", f"job/{job}/evaluate", body)["EvalID"])

    def dispatch(
        self,
        job: str,
        *,
        payload: bytes = b"",
        meta: dict[str, str] | None = None,
        idempotency_token: str | None = None,
    ) -> str:
        """Start an instance of a parameterized job; return the id of the instance.

        With an `idempotency_token`, a second call returns the first instance. Nomad reads it
        from the query string only; python-nomad puts it into the body.
        """
        body: Json = {"Meta": meta or {}}
        if payload:
            body["Payload"] = base64.b64encode(payload).decode()
        params = {"idempotency_token": idempotency_token} if idempotency_token else None
        answer = self.session.call("POST", f"job/{job}/dispatch", body, params=params)
        return str(answer["DispatchedJobID"])

    def stop(self, job: str, *, purge: bool = False) -> None:
        """Stop a job; `purge` also removes it."""
        self._library.job.deregister_job(job, purge=purge or None)

    def log_tail(self, allocation: str, task: str, kind: str, *, size: int = 2000) -> str:
        """Return the last `size` bytes that a task wrote to `kind`: stdout or stderr."""
        params = {"task": task, "type": kind, "origin": "end", "offset": size, "plain": "true"}
        return self.session.text(f"client/fs/logs/{allocation}", params)

    def variable(self, path: str) -> tuple[int, dict[str, str]]:
        """Return the index and the items of a Nomad variable. Raises `NotFound`."""
        found = self.session.call("GET", f"var/{path}")
        return int(found["ModifyIndex"]), dict(found["Items"])

    def put_variable(self, path: str, items: dict[str, str], *, index: int = 0) -> None:
        """Write a variable unless it has changed since `index` (0: it does not exist)."""
        body = {"Path": path, "Items": items}
        self.session.call("PUT", f"var/{path}", body, params={"cas": index})

    def delete_variable(self, path: str, *, index: int) -> None:
        """Remove a variable unless it has changed since `index`."""
        self.session.call("DELETE", f"var/{path}", params={"cas": index})


def _allocation(row: Json) -> Allocation:
    state = row.get("DeploymentStatus") or {}
    return Allocation.model_validate(row | {"healthy": state.get("Healthy")})
