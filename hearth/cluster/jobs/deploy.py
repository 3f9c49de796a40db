"""Deploy a job: parse and plan it, register the plan, wait until it runs."""

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final

from hearth.cluster.endpoint import Json
from hearth.cluster.errors import ClusterError, Conflict, JobFailed, JobInvalid, Refused
from hearth.cluster.jobs import difference, failure
from hearth.cluster.jobs.state import State, state_of
from hearth.cluster.nomad import Allocation, Nomad

DECLARED: Final = re.compile(r'^\s*variable\s+"([^"]+)"', re.MULTILINE)
IN_VAIN: Final = re.compile(r"errors? occurred|validation|invalid|missing", re.IGNORECASE)
"""Nomad responds 500 for a job that it parsed and does not accept."""
ESCAPE: Final = re.compile(r"\\.|[$%]\{")
ESCAPES: Final = {"\\b": "\\u0008", "\\f": "\\u000c", "${": "$${", "%{": "%%{"}
DEFAULT_STAGGER: Final = 30_000_000_000
"""Nomad's default, nanoseconds."""
POLL: Final = 1.0
"""Seconds of one blocking query; a deployment may end without a change of its allocations."""


@dataclass(frozen=True)
class Source:
    """A job's file: its name for messages, its HCL2, and values for its variables."""

    name: str
    hcl: str
    variables: Mapping[str, Any] = field(default_factory=dict)

    def values(self) -> str:
        """Return the variables as the content of a variables file. Raises `JobInvalid`."""
        declared = DECLARED.findall(self.hcl)
        for name in self.variables:
            if name not in declared:
                near = get_close_matches(name, declared, n=1)
                question = f" Did you mean {near[0]}?" if near else ""
                raise JobInvalid(self.name, f"it has no variable {name}.{question}")
        return "".join(f"{name} = {_literal(value)}\n" for name, value in self.variables.items())


@dataclass(frozen=True)
class Plan:
    """The effect of registering a job. `before`, `after`: both sides of the change.

    `index`: the state of the job that was planned against; 0 when there is none.
    `unplaced`: group -> why no machine would take it now.
    """

    source: Source
    job: Json
    changed: bool
    before: str
    after: str
    index: int
    warnings: str
    unplaced: dict[str, str]

    @property
    def id(self) -> str:
        return str(self.job["ID"])

    @property
    def type(self) -> str:
        return str(self.job["Type"])

    @property
    def waits(self) -> bool:
        """Whether allocations follow the registration: not for parameterized and periodic jobs."""
        return not self.job.get("ParameterizedJob") and not self.job.get("Periodic")


class Jobs:
    """`jobs = Jobs(nomad); plan = jobs.plan(source); jobs.register(plan); jobs.wait(plan.id)`"""

    def __init__(self, nomad: Nomad) -> None:
        self.nomad = nomad

    def plan(self, source: Source) -> Plan:
        """Parse and plan a job without registering it. Raises `JobInvalid`."""
        call = self.nomad.session.call
        body = {"JobHCL": source.hcl, "Variables": source.values(), "Canonicalize": True}
        try:
            job = call("POST", "jobs/parse", body)
            answer = call("POST", f"job/{job['ID']}/plan", {"Job": job, "Diff": True})
        except Refused as error:
            if _is_of_the_job(error):
                raise JobInvalid(source.name, error.answer) from error
            raise
        before, after = difference.sides(answer["Diff"])
        unplaced = answer.get("FailedTGAllocs") or {}
        return Plan(
            source=source,
            job=job,
            changed=difference.changes(answer["Diff"]),
            before=before,
            after=after,
            index=answer["JobModifyIndex"],
            warnings=answer.get("Warnings") or "",
            unplaced={group: failure.why_unplaced(metric) for group, metric in unplaced.items()},
        )

    def register(self, plan: Plan) -> str:
        """Register a plan and return the id of the evaluation.

        Raises `Conflict` if the job has changed since the plan.
        """
        body = {
            "Job": plan.job,
            "EnforceIndex": True,
            "JobModifyIndex": plan.index,
            "Submission": {
                "Source": plan.source.hcl,
                "Format": "hcl2",
                "Variables": plan.source.values(),
            },
        }
        try:
            return str(self.nomad.session.call("POST", "jobs", body)["EvalID"])
        except Refused as error:
            if "Enforcing job modify index" in error.answer:
                raise Conflict(error.url, error.status, error.answer) from error
            raise

    def reschedule(self, job: str) -> None:
        """Reschedule failed allocations of an unchanged job, without a purge.

        A group's `reschedule` block must not forbid it. After a failed deployment Nomad places
        nothing until there is a new version, so the unchanged job is registered with a `stagger`
        that is a nanosecond longer: groups have their own `update` block, so it has no effect, and
        no plan shows it.
        """
        state = state_of(self.nomad, job)
        self.nomad.evaluate(job, force_reschedule=True)
        if not state.failed:
            return
        update = dict(state.job["Update"] or {})
        update["Stagger"] = int(update.get("Stagger") or DEFAULT_STAGGER) + 1
        body = {
            "Job": {**state.job, "Update": update},
            "EnforceIndex": True,
            "JobModifyIndex": state.job["JobModifyIndex"],
        }
        self.nomad.session.call("POST", "jobs", body)

    def wait(self, job: str, *, timeout: float = 600.0) -> list[Allocation]:
        """Wait until the job is healthy; return its running allocations.

        Raises `JobFailed` with machine, cause and last log lines, also after `timeout` seconds.
        """
        end = time.monotonic() + timeout
        index = 0
        while time.monotonic() < end:
            state = state_of(self.nomad, job)
            if state.done:
                return state.running
            if state.failed:
                raise JobFailed(job, state.failed, self._causes(state))
            index = self.nomad.block(f"job/{job}/allocations", index, wait=POLL).index
        state = state_of(self.nomad, job)
        fact = f"did not become healthy within {timeout:.0f} s"
        unplaced = "Nomad has not placed it yet: `nomad eval list` tells why."
        raise JobFailed(job, fact, self._causes(state) or [unplaced])

    def _causes(self, state: State) -> list[str]:
        causes = [
            f"No machine takes the group {group}: {why}. {failure.PLACE_REMEDY}"
            for group, why in state.unplaced.items()
        ]
        explain = failure.explain if state.unhealthy else failure.explain_pending
        for allocation in (state.unhealthy or state.pending)[:3]:
            try:
                causes += explain(self.nomad, self.nomad.allocation(allocation.id))
            except ClusterError as error:
                causes.append(f"{allocation.node}: {error}")
        return causes


def _literal(value: Any) -> str:
    """Return a value in HCL2, which is JSON except for two escapes and the marks of templates."""
    return ESCAPE.sub(lambda match: ESCAPES.get(match[0], match[0]), json.dumps(value))


def _is_of_the_job(error: Refused) -> bool:
    return error.status == 400 or bool(IN_VAIN.search(error.answer))
