"""The HTTP API of the power manager: machines, their state, and wakes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Final

from fastapi import APIRouter, Depends, FastAPI, Request
from prometheus_client import CollectorRegistry
from pydantic import BaseModel, ConfigDict, Field

from hearth.service.health import Health
from hearth.service.http_errors import (
    BearerKeys,
    BodyLimit,
    Refused,
    add_error_handlers,
    sent_key,
    wrong_key,
)
from hearth.service.server import service_routes
from hearth.service.settings import read_key
from hearth.service.version import hearth_version
from power_manager.machine import Advice, Machine, MachineReport
from power_manager.memory import Memory
from power_manager.metrics import Metrics
from power_manager.settings import Settings

Reason = Annotated[str, Field(max_length=200)]
DAY: Final = 86_400


class WakeRequest(BaseModel):
    """Why a machine is to be woken."""

    model_config = ConfigDict(extra="forbid")

    reason: Reason = "a person asked for it"


class HoldRequest(BaseModel):
    """A holder that needs a machine awake for some time."""

    model_config = ConfigDict(extra="forbid")

    holder: Annotated[str, Field(min_length=1, max_length=100)]
    reason: Reason
    seconds: Annotated[float, Field(gt=0, le=7 * DAY)]
    wake: bool = False
    """Whether it is woken if it sleeps."""


class Question(BaseModel):
    """The question of a machine whether it may sleep."""

    model_config = ConfigDict(extra="forbid")

    busy: Annotated[str, Field(max_length=500)] = ""
    """The reason for which it stays awake, known only to itself."""


def build_app(settings: Settings, health: Health, registry: CollectorRegistry) -> FastAPI:
    """Build the application. Raises `SettingsError` when a key file cannot be read."""
    keys = BearerKeys([read_key(path) for path in settings.key_files])
    machines: dict[str, Machine] = {}
    metrics, memory = Metrics(registry), Memory.read(settings.state_file)

    def learned() -> None:
        # A machine that is not in the settings now may be there after the next start.
        times = {name: list(one.times) for name, one in machines.items() if one.times}
        holds = {name: one.holds.stored() for name, one in machines.items()}
        kept = Memory(times=memory.times | times, holds=memory.holds | holds)
        kept.write(settings.state_file)

    for one in settings.machines:
        known = memory.times.get(one.name, ()), memory.holds.get(one.name)
        machines[one.name] = Machine(one, settings, metrics, *known, learned)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            watching = [group.create_task(machine.watch()) for machine in machines.values()]
            health.started()
            yield
            for task in watching:
                task.cancel()
        for machine in machines.values():
            await machine.close()

    app = FastAPI(
        title="Hearth power manager", version=hearth_version(), lifespan=lifespan,
        openapi_url=None, docs_url=None, redoc_url=None,
    )  # fmt: skip
    app.router.routes.extend([*_routes(machines, keys).routes, *service_routes(health, registry)])
    app.add_middleware(
        BodyLimit, limit=settings.max_body_bytes, setting="POWER_MANAGER_MAX_BODY_BYTES"
    )
    add_error_handlers(app, {})
    return app


def _routes(machines: dict[str, Machine], keys: BearerKeys) -> APIRouter:
    def authorize(request: Request) -> None:
        key = sent_key(request)
        if key is None or not keys.opens(key):
            raise wrong_key("The power manager needs the key of the services or of the cluster.")

    router = APIRouter(prefix="/api/machines", dependencies=[Depends(authorize)])

    @router.get("")
    def list_machines() -> list[MachineReport]:
        return [machine.report() for machine in machines.values()]

    @router.get("/{name}")
    def show(name: str) -> MachineReport:
        return _named(machines, name).report()

    @router.post("/{name}/wake")
    async def wake(name: str, body: WakeRequest) -> MachineReport:
        return await _named(machines, name).wake(body.reason)

    _add_sleep_routes(router, machines)
    return router


def _add_sleep_routes(router: APIRouter, machines: dict[str, Machine]) -> None:
    @router.post("/{name}/sleep")
    async def sleep(name: str) -> MachineReport:
        machine = _named(machines, name)
        if refusal := machine.sleep():
            raise Refused(409, "machine_stays_awake", refusal)
        return machine.report()

    @router.post("/{name}/holds")
    async def hold(name: str, body: HoldRequest) -> MachineReport:
        machine = _named(machines, name)
        return await machine.hold(body.holder, body.reason, body.seconds, wake=body.wake)

    @router.delete("/{name}/holds/{holder}")
    async def release(name: str, holder: str) -> MachineReport:
        machine = _named(machines, name)
        machine.release(holder)
        return machine.report()

    @router.post("/{name}/advice")
    async def advise(name: str, body: Question) -> Advice:
        return _named(machines, name).advise(body.busy)


def _named(machines: dict[str, Machine], name: str) -> Machine:
    machine = machines.get(name)
    if machine is None:
        known = ", ".join(machines) or "none"
        message = f"The machine {name[:100]!r} is not one that may sleep. Those are: {known}."
        raise Refused(404, "machine_not_found", message)
    return machine
