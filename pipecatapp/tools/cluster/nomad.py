"""Nomad's data on machines and jobs, and restarts. The page also works without Nomad."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import structlog

from hearth.cluster.async_nomad import AsyncNomad
from hearth.cluster.errors import ClusterError, Denied, Refused, Unreachable
from hearth.service.host import HostStats
from pipecatapp.tools.cluster.places import Machine, NotRestarted

log = structlog.get_logger()

RESTART_SECONDS: Final = 60.0
"""Time limit for the tasks of an allocation to stop."""

LONG_LIVED: Final = ("service", "system")


class NomadView:
    """Machines, jobs and measurements of a cluster, as Nomad reports them."""

    def __init__(self, nomad: AsyncNomad) -> None:
        self._nomad = nomad
        self.away: str | None = None
        """Why it is not available, as a sentence; None if it responds."""

    async def machines(self) -> list[Machine]:
        """Return the clients of Nomad; empty while it does not answer."""
        return [_machine(node) for node in await self._list("nodes", resources="true")]

    async def unplaced(self) -> dict[str, str]:
        """Return jobs without a running allocation that should have one, each with the reason."""
        reasons = {job["ID"]: _why_unplaced(job) for job in await self._list("jobs")}
        return {job: why for job, why in reasons.items() if why}

    async def measure(self) -> dict[str, HostStats]:
        """Return the measurements of its clients by name, without clients that do not answer."""
        nodes = [node for node in await self._list("nodes") if node["Status"] == "ready"]
        measured = await asyncio.gather(*(self._measure(node["ID"]) for node in nodes))
        return {
            node["Name"]: stats
            for node, stats in zip(nodes, measured, strict=True)
            if stats is not None
        }

    async def _measure(self, node: str) -> HostStats | None:
        try:
            return _stats(await self._nomad.call("GET", "client/stats", params={"node_id": node}))
        except (ClusterError, ValueError, KeyError, TypeError) as error:
            log.warning("machine_not_measured", node=node, reason=str(error))
            return None

    async def restart(self, allocation: str) -> None:
        """Restart every task of an allocation in its place. Raises `NotRestarted`."""
        command = f"nomad alloc restart {allocation}"
        try:
            await self._nomad.call(
                "PUT",
                f"client/allocation/{allocation}/restart",
                {"AllTasks": True},
                timeout=RESTART_SECONDS,
            )
        except Unreachable as error:
            raise NotRestarted(f"Nomad does not answer: {error.reason}.", command) from error
        except Denied as error:
            reason = "Nomad does not let the agent restart allocations."
            raise NotRestarted(reason, command) from error
        except Refused as error:
            raise NotRestarted(f"Nomad refuses: {error.answer}", command) from error

    async def _list(self, path: str, **params: str) -> list[Any]:
        """Return the list at `path`; empty, with the reason in `away`, if there is no response."""
        try:
            rows = await self._nomad.call("GET", path, params=params) or []
        except Unreachable as error:
            self._set_away(f"Nomad does not answer: {error.reason}.")
            return []
        except Refused as error:
            self._set_away(f"Nomad refuses ({error.status}): {error.answer}")
            return []
        self._set_away(None)
        return rows if isinstance(rows, list) else []

    def _set_away(self, away: str | None) -> None:
        if away is not None and self.away is None:
            log.warning("nomad_away", reason=away)
        elif away is None and self.away is not None:
            log.info("nomad_answers")
        self.away = away


def _stats(report: Mapping[str, Any]) -> HostStats:
    """Return the measurements in `api.HostStats` of Nomad, whose times are in nanoseconds."""
    cpus = [cpu["TotalPercent"] for cpu in report["CPU"] or ()]
    memory, disk = report["Memory"], report["AllocDirStats"] or {}
    return HostStats(
        at=datetime.fromtimestamp(report["Timestamp"] / 1e9, UTC),
        cpu_percent=sum(cpus) / len(cpus) if cpus else None,
        memory_total=memory["Total"],
        memory_used=memory["Total"] - memory["Available"],
        disk_total=disk.get("Size"),
        disk_used=disk.get("Used"),
        uptime_seconds=report["Uptime"],
    )


def _machine(node: Mapping[str, Any]) -> Machine:
    state, why = _state(node)
    resources = node.get("NodeResources") or {}
    return Machine(
        name=node["Name"],
        address=node["Address"],
        healthy=state == "ready",
        state=state,
        detail=why,
        cores=(resources.get("Cpu") or {}).get("TotalCpuCores"),
        memory_mb=(resources.get("Memory") or {}).get("MemoryMB"),
        services=[],
    )


def _state(node: Mapping[str, Any]) -> tuple[str, str]:
    if node["Status"] != "ready":
        return node["Status"], node.get("StatusDescription") or "Nomad hears nothing of it"
    if node.get("Drain"):
        return "draining", "its work is moved to other machines"
    if node.get("SchedulingEligibility") == "ineligible":
        return "closed", "it accepts no new jobs"
    return "ready", ""


def _why_unplaced(job: Mapping[str, Any]) -> str:
    """Return the reason; empty if an allocation runs, the job was stopped, or it is not a
    service."""
    if job.get("Stop") or job["Type"] not in LONG_LIVED or job.get("ParameterizedJob"):
        return ""
    groups = ((job.get("JobSummary") or {}).get("Summary") or {}).values()
    if not groups or any(group.get("Running") for group in groups):
        return ""
    counted = {
        "waiting for a machine with room": sum(group.get("Queued", 0) for group in groups),
        "starting": sum(group.get("Starting", 0) for group in groups),
        "failed": sum(group.get("Failed", 0) for group in groups),
        "lost with a machine": sum(group.get("Lost", 0) for group in groups),
    }
    return ", ".join(f"{count} {words}" for words, count in counted.items() if count) or (
        "nothing of it runs"
    )
