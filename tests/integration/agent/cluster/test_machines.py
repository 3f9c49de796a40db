"""Machines of a cluster: measured and restarted by Nomad, found through Consul."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from tests.integration.agent.conftest import House, Serve
from tests.integration.gateway.conftest import wait_until
from tests.integration.gateway.consul import ConsulServer, running

Json = dict[str, Any]
ALLOCATION = "0123abcd-0123-4567-89ab-0123456789ab"
STATS = {
    "CPU": [{"TotalPercent": 20.0}, {"TotalPercent": 40.0}],
    "Memory": {"Total": 8_000, "Available": 6_000, "Used": 1_500, "Free": 100},
    "AllocDirStats": {"Size": 500, "Used": 100},
    "Timestamp": 1_795_620_277_695_600_447,
    "Uptime": 3600,
}
"""What a client of Nomad 2.0 answers, without the fields that nothing reads."""


class Nomad:
    """The part of Nomad's API that the page uses; `rights` to restart can be taken away."""

    def __init__(self) -> None:
        self.rights, self.restarted = True, list[str]()
        self.app = Starlette(
            routes=[
                Route("/v1/nodes", self._nodes),
                Route("/v1/jobs", self._jobs),
                Route("/v1/client/stats", self._stats),
                Route("/v1/client/allocation/{id}/restart", self._restart, methods=["PUT"]),
            ]
        )

    async def _nodes(self, request: Request) -> Response:
        node = {"ID": "n1", "Name": "machine1", "Address": "127.0.0.1", "Status": "ready"}
        cpu = {"TotalCpuCores": 4}
        resources = {"Cpu": cpu, "Memory": {"MemoryMB": 8000}}
        return JSONResponse([{**node, "NodeResources": resources}])

    async def _jobs(self, request: Request) -> Response:
        return JSONResponse([])

    async def _stats(self, request: Request) -> Response:
        return JSONResponse(STATS if request.query_params["node_id"] == "n1" else {})

    async def _restart(self, request: Request) -> Response:
        if not self.rights:
            return PlainTextResponse("Permission denied", 403)
        self.restarted.append(request.path_params["id"])
        return JSONResponse({})


@pytest.fixture
def nomad() -> Nomad:
    return Nomad()


@pytest.fixture
def house(empty_house: House, nomad: Nomad, serve: Serve, tmp_path: Path) -> Iterator[House]:
    """An agent that finds its gateway in Consul and its machines in Nomad."""
    (tmp_path / "consul").mkdir()
    with running(tmp_path / "consul") as consul:
        port = urlsplit(empty_house.gateway).port or 0
        register(consul, "moe-gateway", f"_nomad-task-{ALLOCATION}-gateway-moe-gateway-http", port)
        register(consul, "oven", "oven", 9)
        empty_house.more = {"consul_url": consul.url, "nomad_url": serve(nomad.app)}
        with empty_house.running():
            yield empty_house


def register(consul: ConsulServer, name: str, id: str, port: int) -> None:
    body = {"ID": id, "Name": name, "Address": "127.0.0.1", "Port": port}
    consul.api.put("/v1/agent/service/register", json=body).raise_for_status()


def machine(house: House) -> Json:
    """The machine when both services are known."""
    found: list[Json] = []

    def known() -> bool:
        with house.client() as client:
            found[:] = client.get("/api/machines").raise_for_status().json()["machines"]
        names = {service["name"] for one in found for service in one["services"]}
        return {"moe-gateway", "oven"} <= names

    wait_until(known)
    return found[0]


def restart(house: House, service: str) -> tuple[int, Json]:
    with house.client() as client:
        body = {"service": service, "machine": "machine1"}
        answer = client.post("/api/machines/restart", json=body)
    return answer.status_code, answer.json() or {}


def test_nomad_measures_each_machine(house: House) -> None:
    """No agent of our own is needed on the machines."""
    found = machine(house)

    assert (found["name"], found["cores"], found["state"]) == ("machine1", 4, "ready")
    stats = found["stats"]
    assert (stats["cpu_percent"], stats["memory_used"], stats["disk_used"]) == (30, 2_000, 100)
    assert stats["uptime_seconds"] == 3600
    assert stats["at"].startswith("2026-11-25T")
    assert stats["celsius"] is None
    assert stats["watts"] is None


def test_service_of_nomad_is_restarted_in_its_allocation(house: House, nomad: Nomad) -> None:
    """The service of the machine that was chosen, not all of the job."""
    machine(house)

    assert restart(house, "moe-gateway")[0] == 202
    assert nomad.restarted == [ALLOCATION]


def test_what_cannot_be_restarted_from_here_is_answered_with_the_command(
    house: House, nomad: Nomad
) -> None:
    """Without the right, and for what systemd runs."""
    machine(house)
    nomad.rights = False

    denied, other, unknown = (restart(house, name) for name in ("moe-gateway", "oven", "stove"))

    assert [denied[0], other[0], unknown[0]] == [409, 409, 409]
    assert denied[1]["command"] == f"nomad alloc restart {ALLOCATION}"
    assert other[1]["command"] == "systemctl restart oven"
    assert "Consul knows no service 'stove' on 'machine1'" in unknown[1]["error"]["message"]
