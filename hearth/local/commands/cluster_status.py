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
    name: str
    address: str
    healthy: bool
    state: str
    detail: str
    cores: int | None
    memory_mb: int | None
    services: list[str]


class Service(BaseModel):
    name: str
    url: str
    machine: str
    healthy: bool
    since: str
    detail: str


class Place(BaseModel):
    machine: str
    healthy: bool


class Expert(BaseModel):
    name: str
    model: str | None
    model_reason: str
    healthy: bool
    reason: str
    instances: list[Place]


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
            answer = client.get("/api/status")
        if answer.status_code == 401:
            raise ClusterUnknown(f"{cluster.url} refuses the key")
        told = answer.raise_for_status().json()
        return ClusterStatus.model_validate(told), told
    except (httpx2.HTTPError, ValidationError, ValueError) as error:
        raise ClusterUnknown(f"{cluster.url}: {error}") from error


def show(status: ClusterStatus, url: str, console: Console) -> None:
    """Print the three tables that the web page has, and the addresses below them."""
    for table in (
        _machines(status.machines), _experts(status.experts), _services(status.services)
    ):  # fmt: skip
        console.print(table, end="\n\n")
    if status.schedules:
        console.print(table_of(status.schedules), end="\n\n")
    for words in status.unknown:
        console.print(Text(words, "yellow"))
    gateways = [one.url for one in status.services if one.name == MOE_GATEWAY and one.url]
    api = {"API": f"{gateways[0]}/v1"} if gateways else {}
    for name, address in {"Web page": url, **api, **status.links}.items():
        console.print(f"{name:<9} {address}", highlight=False, markup=False, soft_wrap=True)


def _machines(machines: list[Machine]) -> Table:
    table = _table("Machine", "State", "Address", "Room", "Services")
    for one in machines:
        room = [f"{one.cores} cores" if one.cores else "", _memory(one.memory_mb)]
        services = Text(", ".join(one.services))
        if one.detail:
            services.append(f" ({one.detail})")
        table.add_row(
            one.name, _word(one.state, well=one.healthy), one.address,
            ", ".join(filter(None, room)), services,
        )  # fmt: skip
    return table


def _experts(experts: list[Expert]) -> Table:
    table = _table("Expert", "State", "Model", "Machines", "Detail")
    for one in experts:
        where = dict.fromkeys(each.machine for each in one.instances if each.healthy)
        table.add_row(
            one.name, _health(one), one.model or "", ", ".join(where),
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
    return _word("healthy" if one.healthy else "not healthy", well=one.healthy)


def _word(word: str, *, well: bool) -> Text:
    return Text(word, "green" if well else "bold red")


def _memory(megabytes: int | None) -> str:
    return f"{megabytes / MEBI:.1f} GB" if megabytes else ""
