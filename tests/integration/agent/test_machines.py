"""`/api/machines`: what a machine does, and the restart of its services through `hearth up`."""

import signal
import socket
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest

from hearth.service.state import read_instance
from tests.integration.agent.conftest import House
from tests.integration.local.conftest import Tiny, make_tiny, wait_for

Json = dict[str, Any]

__all__ = ["make_tiny"]


@pytest.fixture
def tiny(make_tiny: Callable[[], Tiny], empty_house: House) -> Iterator[Tiny]:
    """Tiny services under a real `hearth up`, with the agent of the test on their state."""
    tiny = make_tiny()
    up = tiny.start()
    tiny.running()
    keys = ("key", "service_key")
    empty_house.key = (tiny.state.root / keys[0]).read_text(encoding="ascii").strip()
    empty_house.state = tiny.state.root
    with empty_house.running():
        yield tiny
    up.send(signal.SIGINT)
    assert up.ended() == 0


def test_machine_is_measured_with_its_experts_and_services(empty_house: House) -> None:
    """One look tells whether the machine is the reason that answers are slow."""
    empty_house.model.expert["instances"] = [
        {"machine": "", "model": "scripted", "healthy": True, "tokens_per_second": 21.5}
    ]
    with empty_house.running(), empty_house.client() as client:
        (machine,) = client.get("/api/machines").raise_for_status().json()["machines"]

    assert machine["name"] == socket.gethostname()
    assert [one["name"] for one in machine["services"]] == ["moe-gateway"]
    assert machine["speeds"] == [
        {"expert": "scripted", "model": "scripted", "tokens_per_second": 21.5}
    ]
    stats = machine["stats"]
    assert 0 < stats["memory_used"] < stats["memory_total"]
    assert 0 < stats["disk_used"] < stats["disk_total"]
    assert stats["uptime_seconds"] > 0
    assert 0 <= stats["cpu_percent"] <= 100


def test_service_is_restarted_through_hearth_up(tiny: Tiny, empty_house: House) -> None:
    """The button on the page, down to the new process."""
    before = {one.name: one.pid for one in tiny.running().services}
    with empty_house.client() as client:
        answer = restart(client, "moe-gateway")
        unknown = restart(client, "oven")
        listed = client.get("/api/status").json()["services"]

    assert answer.status_code == 202
    instance = wait_for(lambda: read_instance(tiny.state), "it runs")
    after = {one.name: one.pid for one in instance.services}
    assert [name for name in after if after[name] != before[name]] == ["moe-gateway"]
    assert unknown.status_code == 409
    assert "There is no service 'oven': choose one of" in unknown.json()["error"]["message"]
    assert {one["name"] for one in listed} == set(after), "the services are those that run now"


def test_restart_of_the_agent_itself_is_answered_first(tiny: Tiny, empty_house: House) -> None:
    """Its own end must not look like a failure."""
    before = {one.name: one.pid for one in tiny.running().services}
    with empty_house.client() as client:
        answer = restart(client, "pipecatapp")

    assert answer.status_code == 202

    def changed() -> bool:
        instance = read_instance(tiny.state)
        pids = {one.name: one.pid for one in instance.services} if instance else before
        return pids["pipecatapp"] != before["pipecatapp"]

    wait_for(changed, "the agent has another process")


def test_without_hearth_up_and_for_issued_keys_nothing_is_restarted(empty_house: House) -> None:
    """The reason is told; a guest's key stops no service."""
    behalf = {"x-hearth-caller": "guest;1;signature"}
    with empty_house.running(), empty_house.client() as client:
        refused = restart(client, "moe-gateway")
        guest = client.get("/api/machines", headers=behalf)

    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "not_restarted")
    assert "not started by `hearth up`" in refused.json()["error"]["message"]
    assert (guest.status_code, guest.json()["error"]["code"]) == (403, "not_administrator")


def restart(client: httpx2.Client, service: str) -> httpx2.Response:
    body: Json = {"service": service, "machine": socket.gethostname()}
    return client.post("/api/machines/restart", json=body)
