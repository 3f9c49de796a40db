"""Programs in Nomad's batch jobs: `pipecatapp.sandbox.worker`, on any machine of the cluster.

A job is dispatched from the registered parameterized job (`nomad_jobs/hearth-code`). Its payload is
a token; the worker gets the rest from this service.
"""

import asyncio
import base64
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hearth.cluster.async_nomad import AsyncNomad
from hearth.cluster.errors import NotFound, Refused, Unreachable
from pipecatapp.sandbox import Outcome
from pipecatapp.sandbox.errand import Errand
from pipecatapp.tools.code.elsewhere.errands import Errands, Offered
from pipecatapp.workflow import ToolFailed

TICK: Final = 0.1
LOOK: Final = 1.0
"""Seconds between two checks for the result, and between two requests for the job's state."""
GRACE: Final = 5.0
"""Seconds in which a result may arrive after its job has ended."""
OVER: Final = ("complete", "failed", "lost")
JOB: Final = "job"


@dataclass(frozen=True)
class NomadPlace:
    """Executes programs as batch jobs of Nomad.

    `url` is the address of this service for the workers.
    """

    nomad: AsyncNomad
    errands: Errands
    job: str
    url: str
    ca_file: Path | None = None
    """Certificate authority that the worker trusts; without it, those of the system."""

    async def run(
        self, call: str, errand: Errand, folder: Path, *, leaving: Callable[[], bool]
    ) -> Outcome:
        """Execute a program; see `Elsewhere.run`."""
        offered = await self.errands.offer(call, errand, folder)
        return await offered.carried(self._came, self._end, folder, leaving=leaving)

    async def _came(self, offered: Offered) -> None:
        """Wait for the result; raises `ToolFailed` if the job ends without one."""
        job = offered.noted(JOB) or await self._dispatch(offered)
        look = since = time.monotonic()
        while not offered.result.exists():
            await asyncio.sleep(TICK)
            if time.monotonic() < look:
                continue
            found = await self._allocations(job)
            if found is not None and not _over(found):
                since = time.monotonic()
            look = time.monotonic() + LOOK
            if look - since > GRACE and not offered.result.exists():
                raise ToolFailed(f"The job {job} has ended without a result{_why(found)}.")

    async def _dispatch(self, offered: Offered) -> str:
        """Start the job and return its id; a repeated request returns the same job."""
        url = f"{self.url.rstrip('/')}/api/errands/{offered.id}"
        ca = "" if self.ca_file is None else await asyncio.to_thread(self.ca_file.read_text)
        payload = json.dumps({"url": url, "token": offered.token, "ca": ca}).encode()
        body = {"Payload": base64.b64encode(payload).decode()}
        params = {"idempotency_token": offered.id}
        response = await self._call("PUT", f"job/{self.job}/dispatch", body, params)
        job = str(response["DispatchedJobID"])
        offered.note(JOB, job)
        return job

    async def _allocations(self, job: str) -> list[dict[str, Any]] | None:
        """Return the allocations of a job; None if it does not exist or was stopped."""
        try:
            body = await self._call("GET", f"job/{job}")
            if body.get("Stop"):
                return None
            return list(await self._call("GET", f"job/{job}/allocations"))
        except _NotThere:
            return None
        except ToolFailed:
            return []  # Nomad may be restarting; its jobs continue

    async def _end(self, offered: Offered) -> None:
        """Stop the Nomad job and delete the remote job."""
        if (job := offered.noted(JOB)) is not None:
            try:
                await self._call("DELETE", f"job/{job}", params={"purge": "true"})
            except _NotThere:
                pass
            except ToolFailed as error:
                raise ToolFailed(f"The job {job} may still be running: {error}") from error
        await asyncio.to_thread(self.errands.drop, offered)

    async def _call(
        self, method: str, path: str, body: Any = None, params: dict[str, str] | None = None
    ) -> Any:
        try:
            return await self.nomad.call(method, path, body, params=params)
        except Unreachable as error:
            raise ToolFailed(f"Nomad does not answer: {error.reason}.") from error
        except NotFound as error:
            raise _NotThere(f"Nomad has no job {self.job!r}: {error.answer}.") from error
        except Refused as error:
            raise ToolFailed(f"Nomad refused ({error.status}): {error.answer}.") from error


class _NotThere(ToolFailed):
    """Nomad does not know the job."""


def _over(found: list[dict[str, Any]]) -> bool:
    """Whether all of it has ended; one that waits for a machine has not."""
    return bool(found) and all(one["ClientStatus"] in OVER for one in found)


def _why(found: list[dict[str, Any]] | None) -> str:
    """The last thing that happened to its task."""
    if found is None:
        return ": it was stopped"
    events = [
        event.get("DisplayMessage", "")
        for one in found
        for task in (one.get("TaskStates") or {}).values()
        for event in task.get("Events") or []
    ]
    return f": {'; '.join(events[-2:])}" if events else ""
