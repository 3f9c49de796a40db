"""The HTTP API of the power manager: machines, their state, and wakes."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import structlog
from fastapi import APIRouter, Depends, FastAPI, Request
from prometheus_client import CollectorRegistry
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from hearth.files import write_atomic
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
from power_manager.machine import Machine, MachineReport
from power_manager.metrics import Metrics
from power_manager.settings import Settings

log = structlog.get_logger()

TIMES = TypeAdapter(dict[str, list[float]])


class WakeRequest(BaseModel):
    """Why a machine is to be woken."""

    model_config = ConfigDict(extra="forbid")

    reason: str = Field("a person asked for it", max_length=200)


def build_app(settings: Settings, health: Health, registry: CollectorRegistry) -> FastAPI:
    """Build the application. Raises `SettingsError` when a key file cannot be read."""
    keys = BearerKeys([read_key(path) for path in settings.key_files])
    machines: dict[str, Machine] = {}
    metrics, times = Metrics(registry), _read_times(settings.state_file)

    def learned() -> None:
        if settings.state_file is not None:
            known = times | {name: list(one.times) for name, one in machines.items() if one.times}
            try:
                write_atomic(settings.state_file, json.dumps(known, indent=1))
            except OSError as error:  # The disk is full: only an estimate is lost.
                log.warning("wake_times_not_stored", reason=str(error))

    for one in settings.machines:
        machines[one.name] = Machine(one, settings, metrics, times.get(one.name, ()), learned)

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
            raise wrong_key("The power manager uses the key of the services.")

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

    return router


def _named(machines: dict[str, Machine], name: str) -> Machine:
    machine = machines.get(name)
    if machine is None:
        known = ", ".join(machines) or "none"
        message = f"The machine {name[:100]!r} is not one that may sleep. Those are: {known}."
        raise Refused(404, "machine_not_found", message)
    return machine


def _read_times(file: Path | None) -> dict[str, list[float]]:
    """Return the measured wake times; a file that cannot be read is logged and replaced later."""
    if file is None or not file.exists():
        return {}
    try:
        return TIMES.validate_json(file.read_bytes())
    except (OSError, ValidationError) as error:
        log.warning("wake_times_unreadable", file=str(file), reason=str(error))
        return {}
