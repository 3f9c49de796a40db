"""`hearth status` of a cluster: the data of its web page, as tables or as JSON."""

from typing import Any, Final

import httpx2
from pydantic import BaseModel, ValidationError
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hearth.local.cluster import Cluster
from hearth.local.commands.schedules import Schedule, table_of
from hearth.local.commands.status import Exit
from hearth.local.errors import ClusterUnknown
from hearth.service.names import MOE_GATEWAY

MEBI: Final = 1024


class Machine(BaseModel):
    """A machine of the cluster."""

    name: str
    address: str
    healthy: bool
    state: str
    detail: str
    cores: int | None
    memory_mb: int | None
    services: list[str]


class Service(BaseModel):
    """One instance of a service."""

    name: str
    url: str
    machine: str
    healthy: bool
    since: str
    detail: str


class ExpertInstance(BaseModel):
    """One server of an expert."""

    machine: str
    healthy: bool


class Expert(BaseModel):
    """An expert with its servers."""

    name: str
    model: str | None
    model_reason: str
    healthy: bool
    reason: str
    instances: list[ExpertInstance]


class ClusterStatus(BaseModel):
    """The fields of the response of `/api/status` that the command shows."""

    healthy: bool
    version: str
    machines: list[Machine]
    services: list[Service]
    experts: list[Expert]
    links: dict[str, str]
    schedules: list[Schedule] = []
    unknown: list[str]

    @property
    def exit_code(self) -> Exit:
        return Exit.HEALTHY if self.healthy else Exit.UNHEALTHY


def ask(cluster: Cluster) -> tuple[ClusterStatus, dict[str, Any]]:
    """Return the parsed status and the raw response. Raises `ClusterUnknown`."""
    try:
        with cluster.client() as client:
            response = client.get("/api/status")
        if response.status_code == 401:
            raise ClusterUnknown(f"{cluster.url} does not accept the key")
        body = response.raise_for_status().json()
        return ClusterStatus.model_validate(body), body
    except (httpx2.HTTPError, ValidationError, ValueError) as error:
        raise ClusterUnknown(f"{cluster.url}: {error}") from error


def show(status: ClusterStatus, url: str, console: Console) -> None:
    """Print the tables of machines, experts and services, as on the web page, and the addresses."""
    for table in (
        _machines(status.machines), _experts(status.experts), _services(status.services)
    ):  # fmt: skip
        console.print(table, end="\n\n")
    if status.schedules:
        console.print(table_of(status.schedules), end="\n\n")
    for line in status.unknown:
        console.print(Text(line, "yellow"))
    gateways = [one.url for one in status.services if one.name == MOE_GATEWAY and one.url]
    api = {"API": f"{gateways[0]}/v1"} if gateways else {}
    for name, address in {"Web page": url, **api, **status.links}.items():
        console.print(f"{name:<9} {address}", highlight=False, markup=False, soft_wrap=True)


def _machines(machines: list[Machine]) -> Table:
    table = _table("Machine", "State", "Address", "Capacity", "Services")
    for one in machines:
        capacity = [f"{one.cores} cores" if one.cores else "", _memory(one.memory_mb)]
        services = Text(", ".join(one.services))
        if one.detail:
            services.append(f" ({one.detail})")
        table.add_row(
            one.name, _coloured(one.state, healthy=one.healthy), one.address,
            ", ".join(filter(None, capacity)), services,
        )  # fmt: skip
    return table


def _experts(experts: list[Expert]) -> Table:
    table = _table("Expert", "State", "Model", "Machines", "Detail")
    for one in experts:
        machines = dict.fromkeys(each.machine for each in one.instances if each.healthy)
        table.add_row(
            one.name, _health(one), one.model or "", ", ".join(machines),
            Text(one.reason or one.model_reason),
        )  # fmt: skip
    return table


def _services(services: list[Service]) -> Table:
    table = _table("Service", "State", "Machine", "Address", "Detail")
    for one in services:
        table.add_row(one.name, _health(one), one.machine, one.url, Text(one.detail))
    return table


def _table(*titles: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in titles:
        table.add_column(title, overflow="fold")
    return table


def _health(one: Expert | Service) -> Text:
    return _coloured("healthy" if one.healthy else "not healthy", healthy=one.healthy)


def _coloured(text: str, *, healthy: bool) -> Text:
    return Text(text, "green" if healthy else "bold red")


def _memory(megabytes: int | None) -> str:
    return f"{megabytes / MEBI:.1f} GB" if megabytes else ""
