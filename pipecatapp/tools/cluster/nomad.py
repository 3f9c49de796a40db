"""Nomad's data on machines and jobs, and restarts. The page also works without Nomad."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import httpx2
import structlog

from hearth.service.host import HostStats
from pipecatapp.tools.cluster.places import Machine, NotRestarted

log = structlog.get_logger()

SOCKET: Final = "unix://"
"""Prefix of an address that is the Unix socket of Nomad's task API."""

RESTART_SECONDS: Final = 60.0
"""Time limit for the tasks of an allocation to stop."""

LONG_LIVED: Final = ("service", "system")


class NomadView:
    """A Nomad API, over http, https or the unix socket that Nomad creates in each task.

    The token is read again for each request: Nomad renews that of a workload's identity.
    """

    def __init__(self, http: httpx2.AsyncClient, token_file: Path | None = None) -> None:
        self._http, self._token_file = http, token_file
        self.away: str | None = None
        """Why it is not available, as a sentence; None if it responds."""

    async def machines(self) -> list[Machine]:
        """Its clients; none while it does not answer."""
        found = await self._ask("/v1/nodes", resources="true")
        return [_machine(node) for node in found]

    async def unplaced(self) -> dict[str, str]:
        """Return jobs without a running allocation that should have one, each with the reason."""
        reasons = {job["ID"]: _why_unplaced(job) for job in await self._ask("/v1/jobs")}
        return {job: why for job, why in reasons.items() if why}

    async def measure(self) -> dict[str, HostStats]:
        """Return the measurements of its clients by name, without clients that do not answer."""
        nodes = [one for one in await self._ask("/v1/nodes") if one["Status"] == "ready"]
        found = await asyncio.gather(*(self._measure(node["ID"]) for node in nodes))
        return {
            node["Name"]: stats
            for node, stats in zip(nodes, found, strict=True)
            if stats is not None
        }

    async def _measure(self, node: str) -> HostStats | None:
        try:
            answer = await self._http.get(
                "/v1/client/stats", params={"node_id": node}, headers=self._headers()
            )
            answer.raise_for_status()
            return _stats(answer.json())
        except (httpx2.HTTPError, OSError, ValueError, KeyError, TypeError) as error:
            log.warning("machine_not_measured", node=node, reason=str(error))
            return None

    async def restart(self, allocation: str) -> None:
        """Restart every task of an allocation in its place. Raises `NotRestarted`."""
        command = f"nomad alloc restart {allocation}"
        try:
            answer = await self._http.put(
                f"/v1/client/allocation/{allocation}/restart",
                json={"AllTasks": True},
                headers=self._headers(),
                timeout=RESTART_SECONDS,
            )
        except (httpx2.HTTPError, OSError) as error:
            raise NotRestarted(f"Nomad does not answer: {error}.", command) from error
        if answer.status_code == 403:
            raise NotRestarted("Nomad does not let the agent restart allocations.", command)
        if not answer.is_success:
            raise NotRestarted(f"Nomad refuses: {answer.text.strip()}", command)

    async def _ask(self, path: str, **query: str) -> list[Any]:
        try:
            answer = await self._http.get(path, params=query, headers=self._headers())
            answer.raise_for_status()
            found = answer.json() or []
        except (httpx2.HTTPError, OSError, ValueError) as error:
            self._say(f"Nomad does not answer: {str(error) or type(error).__name__}.")
            return []
        self._say(None)
        return found if isinstance(found, list) else []

    def _headers(self) -> dict[str, str]:
        if self._token_file is None:
            return {}
        return {"x-nomad-token": self._token_file.read_text(encoding="ascii").strip()}

    def _say(self, away: str | None) -> None:
        if away is not None and self.away is None:
            log.warning("nomad_away", reason=away)
        elif away is None and self.away is not None:
            log.info("nomad_answers")
        self.away = away


def nomad_client(address: str, **options: Any) -> httpx2.AsyncClient:
    """A client of the API at `address`: `https://…`, `http://…` or `unix:///…/api.sock`."""
    if not address.startswith(SOCKET):
        return httpx2.AsyncClient(base_url=address.rstrip("/"), trust_env=False, **options)
    socket = httpx2.AsyncHTTPTransport(uds=address.removeprefix(SOCKET))
    return httpx2.AsyncClient(
        base_url="http://localhost", transport=socket, timeout=options.get("timeout")
    )


def _stats(told: Mapping[str, Any]) -> HostStats:
    """The measurements of a client: `api.HostStats` of Nomad, whose times are in nanoseconds."""
    cpus = [cpu["TotalPercent"] for cpu in told["CPU"] or ()]
    memory, disk = told["Memory"], told["AllocDirStats"] or {}
    return HostStats(
        at=datetime.fromtimestamp(told["Timestamp"] / 1e9, UTC),
        cpu_percent=sum(cpus) / len(cpus) if cpus else None,
        memory_total=memory["Total"],
        memory_used=memory["Total"] - memory["Available"],
        disk_total=disk.get("Size"),
        disk_used=disk.get("Used"),
        uptime_seconds=told["Uptime"],
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
