"""`hearth status`: the state of each service of the running instance, as a table or as JSON."""

import asyncio
from datetime import UTC, datetime
from enum import IntEnum
from pathlib import Path

import httpx2
from pydantic import BaseModel
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hearth.local.process.health import Condition, ask, health_client
from hearth.service.state import Instance, RunningService, process_runs


class Exit(IntEnum):
    """Exit codes, as those of an init script's `status` (Linux Standard Base 5.0, 22.2)."""

    HEALTHY = 0
    UNHEALTHY = 1
    NOT_RUNNING = 3


class ServiceStatus(BaseModel):
    """The current state of one service."""

    name: str
    pid: int
    port: int
    healthy: bool
    since: datetime
    detail: str


class InstanceStatus(BaseModel):
    """The output of `hearth status --json`; without an instance, three nulls and no services."""

    web: str | None
    api: str | None
    key_file: Path | None
    services: list[ServiceStatus]

    @property
    def exit_code(self) -> Exit:
        if not self.services:
            return Exit.NOT_RUNNING
        healthy = all(service.healthy for service in self.services)
        return Exit.HEALTHY if healthy else Exit.UNHEALTHY


NO_INSTANCE = InstanceStatus(web=None, api=None, key_file=None, services=[])
"""The status if no instance is running."""


def status_of(instance: Instance) -> InstanceStatus:
    """Query every service of the instance concurrently."""
    conditions = asyncio.run(_ask_all(instance.services))
    return InstanceStatus(
        web=instance.web,
        api=instance.api,
        key_file=instance.key_file,
        services=[
            ServiceStatus(
                name=service.name,
                pid=service.pid,
                port=service.port,
                healthy=condition.healthy,
                since=service.since,
                detail=condition.detail,
            )
            for service, condition in zip(instance.services, conditions, strict=True)
        ],
    )


def show_status(status: InstanceStatus, console: Console) -> None:
    """Print the status as a table, with the addresses below it."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("Service", "Health", "Port", "Process", "Up for", "Detail"):
        table.add_column(title, overflow="fold")
    for service in status.services:
        word = Text("healthy", "green") if service.healthy else Text("not healthy", "bold red")
        up_for = duration((datetime.now(UTC) - service.since).total_seconds())
        table.add_row(
            service.name, word, str(service.port), str(service.pid), up_for, Text(service.detail)
        )
    console.print(table)
    for name, value in (("Web page", status.web), ("API", status.api), ("Key", status.key_file)):
        console.print(f"{name:<9} {value}", highlight=False, markup=False, soft_wrap=True)


def duration(seconds: float) -> str:
    """Format a duration, such as `42 s`, `7 min`, `3 h 5 min` or `2 d 4 h`."""
    minutes, hours, days = int(seconds // 60), int(seconds // 3600), int(seconds // 86400)
    if days:
        return f"{days} d {hours % 24} h"
    if hours:
        return f"{hours} h {minutes % 60} min"
    return f"{minutes} min" if minutes else f"{int(seconds)} s"


async def _ask_all(services: list[RunningService]) -> list[Condition]:
    async with health_client() as client:
        return await asyncio.gather(*(_ask(client, service) for service in services))


async def _ask(client: httpx2.AsyncClient, service: RunningService) -> Condition:
    if not process_runs(service.pid):
        return Condition(healthy=False, detail="its process ended and is being restarted")
    return await ask(client, service.url)
