"""Repair services through the application: restart one, or serve a model that needs less memory.

Both go through what the pages use: `/api/machines/restart` (the control socket of `hearth up`, or
Nomad's restart of an allocation) and `/api/models/NAME/use`. Nothing is purged: a service restarts
in its place, and the new model has to be healthy, else the one before serves again.

Each repair is written down before it begins. The pauses between the repairs of one target double,
and there are at most three a day.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, ValidationError

from hearth.files import write_atomic
from hearth.service.names import expert_service
from pipecatapp.client import Client, RequestFailed, segment
from prompt_engineering.archive import InvalidArchive

FIRST_PAUSE: Final = timedelta(minutes=10)
WINDOW: Final = timedelta(days=1)
MOST_REPAIRS: Final = 3
"""Repairs of one target within the window."""
GRACE: Final = timedelta(minutes=1)
"""A service that is not healthy for a shorter time may just be starting."""
HEALTHY_SECONDS: Final = 180.0
LOAD_SECONDS: Final = 1800.0
LOOK_SECONDS: Final = 1.0

Json = Mapping[str, Any]


class Kind(StrEnum):
    """A repair that a person can allow; named as the action of a reflection."""

    RESTART = "restart"
    MORE_MEMORY = "more_memory"


class Attempt(BaseModel):
    """One repair. `cause` is the failed run that led to it, if one did; `result` how it ended."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    at: datetime
    cause: str = ""
    result: str = "It was interrupted."


class Repairs(BaseModel):
    """All repairs of one service or of the served model, the oldest first."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    target: str
    attempts: tuple[Attempt, ...] = ()

    def refusal(self, now: datetime, cause: str = "") -> str | None:
        """Return why no repair begins now; None when one may begin."""
        if cause and any(one.cause == cause for one in self.attempts):
            return f"The failure {cause} has led to a repair of {self.target} already."
        recent = [one for one in self.attempts if now - one.at < WINDOW]
        if len(recent) >= MOST_REPAIRS:
            return (
                f"{self.target} was repaired {MOST_REPAIRS} times in a day."
                " A person has to look at it."
            )
        if not recent:
            return None
        again = recent[-1].at + FIRST_PAUSE * 2 ** (len(recent) - 1)
        if now >= again:
            return None
        return (
            f"The next repair of {self.target} may begin at {again.isoformat(timespec='seconds')}."
        )

    def ended(self, result: str) -> "Repairs":
        """Return the record with the result of its last repair."""
        last = self.attempts[-1].model_copy(update={"result": result})
        return self.model_copy(update={"attempts": (*self.attempts[:-1], last)})


def read_repairs(folder: Path, target: str) -> Repairs:
    """Read the repairs of a target; empty where there were none. Raises `InvalidArchive`."""
    file = _file(folder, target)
    if not file.exists():
        return Repairs(target=target)
    try:
        return Repairs.model_validate_json(file.read_bytes())
    except ValidationError as error:
        raise InvalidArchive(f"{file} is not valid.") from error


async def restart_unhealthy(
    client: Client,
    folder: Path,
    *,
    now: datetime | None = None,
    grace: timedelta | None = None,
) -> list[str]:
    """Restart each service that is down, and wait until it is healthy; say what was done.

    `grace` is how long it has to be down, by default `GRACE`.

    A service that is down because of another one, or because its machine is away, is left alone. A
    job that ended or was stopped is not listed. Raises `RequestFailed`.
    """
    status = await client.request("GET", "/api/status")
    now, least = now or datetime.now(UTC), GRACE if grace is None else grace
    return [
        await _restart(client, folder, service, now)
        for service in _down(status)
        if now - datetime.fromisoformat(service["since"]) >= least
    ]


async def serve_smaller(
    client: Client, folder: Path, cause: str, *, now: datetime | None = None
) -> str:
    """Let the expert serve the largest model that needs less memory; say what was done.

    `cause` is the failed run: one run leads to one change. Raises `RequestFailed`.
    """
    found = await client.request("GET", "/api/models")
    if not found["can_use"]:
        return f"The model is not changed from here: `{found['command']}`."
    used = next((one for one in found["models"] if one["in_use"] and one["kind"] == "chat"), None)
    smaller = _smaller(found["models"], used) if used else None
    if used is None or smaller is None:
        return "No smaller model is downloaded: see `hearth models list`."
    repairs = read_repairs(folder, "expert")
    now = now or datetime.now(UTC)
    if refusal := repairs.refusal(now, cause):
        return refusal
    repairs = _begun(folder, repairs, now, cause)
    await client.request("POST", f"/api/models/{segment(smaller)}/use")
    error = await _loaded(client, smaller)
    result = (
        f"{smaller} serves instead of {used['name']}."
        if error is None
        else f"{used['name']} serves on: {error}"
    )
    _write(folder, repairs.ended(result))
    return result


def _down(status: Json) -> list[Json]:
    """The services that are a cause in the status; a model server is named by its expert there."""
    causes = [one["name"] for one in status["down"] if one["kind"] == "service"]
    names = {*causes, *map(expert_service, causes)}
    return [one for one in status["services"] if one["name"] in names and not one["healthy"]]


async def _restart(client: Client, folder: Path, service: Json, now: datetime) -> str:
    name, machine = str(service["name"]), str(service["machine"])
    target = f"{name}@{machine}"
    repairs = read_repairs(folder, target)
    if refusal := repairs.refusal(now):
        return refusal
    repairs = _begun(folder, repairs, now, "")
    try:
        body = {"service": name, "machine": machine}
        await client.request("POST", "/api/machines/restart", body, timeout=HEALTHY_SECONDS)
    except RequestFailed as error:
        result = f"{target} was not restarted: {error}"
    else:
        healthy = await _is_healthy_again(client, name, machine)
        state = "is healthy" if healthy else f"is not healthy after {HEALTHY_SECONDS:.0f} s"
        result = f"{target} was restarted and {state}."
    _write(folder, repairs.ended(result))
    return result


async def _is_healthy_again(client: Client, name: str, machine: str) -> bool:
    end = time.monotonic() + HEALTHY_SECONDS
    while time.monotonic() < end:
        services = (await client.request("GET", "/api/status"))["services"]
        found = [one for one in services if (one["name"], one["machine"]) == (name, machine)]
        if found and all(one["healthy"] for one in found):
            return True
        await asyncio.sleep(LOOK_SECONDS)
    return False


def _smaller(models: Sequence[Json], used: Json) -> str | None:
    fitting = [
        one
        for one in models
        if one["kind"] == "chat" and one["installed"] and one["ram_bytes"] < used["ram_bytes"]
    ]
    best = max(fitting, key=lambda one: one["ram_bytes"], default=None)
    return str(best["name"]) if best else None


async def _loaded(client: Client, model: str) -> str | None:
    """Wait until the change of the model has ended; return why it failed, None if it did not."""
    end = time.monotonic() + LOAD_SECONDS
    while time.monotonic() < end:
        change = (await client.request("GET", "/api/models"))["change"]
        if change is None or change["model"] != model:
            return "Another change of the model has begun."
        if change["state"] != "loading":
            return None if change["state"] == "ready" else str(change["error"])
        await asyncio.sleep(LOOK_SECONDS)
    return f"{model} was not loaded within {LOAD_SECONDS:.0f} s."


def _begun(folder: Path, repairs: Repairs, now: datetime, cause: str) -> Repairs:
    attempts = (*repairs.attempts, Attempt(at=now, cause=cause))
    begun = repairs.model_copy(update={"attempts": attempts})
    _write(folder, begun)
    return begun


def _file(folder: Path, target: str) -> Path:
    return folder / "repairs" / f"{segment(target)}.json"


def _write(folder: Path, repairs: Repairs) -> None:
    write_atomic(_file(folder, repairs.target), repairs.model_dump_json(indent=1) + "\n")
