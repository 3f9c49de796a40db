"""The agent in a cluster: gateway, services and machines as a real Consul tells."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.integration.agent.conftest import House, Json
from tests.integration.gateway.consul import ConsulServer, running


@pytest.fixture
def consul(tmp_path: Path) -> Iterator[ConsulServer]:
    folder = tmp_path / "consul"
    folder.mkdir()
    with running(folder) as server:
        yield server


@pytest.fixture
def house(empty_house: House, consul: ConsulServer) -> Iterator[House]:
    """An agent that is told of nothing but Consul; its gateway is not registered yet."""
    empty_house.more = {
        "gateway_url": "http://127.0.0.1:9/v1",
        "consul_url": consul.url,
        "links": {"Consul": "http://node1:8500/ui", "Nomad": "https://node1:4646/ui"},
    }
    with empty_house.running():
        yield empty_house


def register_gateway(consul: ConsulServer, house: House) -> int:
    port = urlsplit(house.gateway).port or 0
    consul.register("moe-gateway", port)
    return port


def status(house: House) -> Json:
    with house.client() as client:
        found: Json = client.get("/api/status").raise_for_status().json()
    return found


def eventually(house: House, condition: Callable[[Json], bool]) -> Json:
    ends = time.monotonic() + 60
    while not condition(found := status(house)):
        assert time.monotonic() < ends, found
        time.sleep(0.05)
    return found


def names(found: Json) -> list[str]:
    return [service["name"] for service in found["services"]]


def test_agent_finds_its_gateway_wherever_it_is(house: House, consul: ConsulServer) -> None:
    """A gateway that was moved to another machine is found without a restart of the agent."""
    assert "no healthy server is known" in house.ask("Hello").text.lower()

    register_gateway(consul, house)
    eventually(house, lambda found: bool(found["experts"]))

    assert house.ask("Hello").status_code == 200


def test_status_shows_what_consul_knows(house: House, consul: ConsulServer) -> None:
    """Machines, services and experts with where they are, since when, and why not."""
    port = register_gateway(consul, house)
    consul.register("grafana", 3000)

    found = eventually(house, lambda found: {"moe-gateway", "grafana"} <= set(names(found)))
    consul.judge("moe-gateway", port, "fail", "no memory left")
    ill = eventually(house, lambda found: not found["healthy"])

    assert found["healthy"]
    [machine] = found["machines"]
    assert (machine["name"], machine["address"]) == ("machine1", "127.0.0.1")
    assert machine["services"] == ["consul", "grafana", "moe-gateway"]
    assert found["links"] == {
        "Grafana": "http://127.0.0.1:3000",
        "Consul": "http://node1:8500/ui",
        "Nomad": "https://node1:4646/ui",
    }
    [gateway] = [one for one in ill["services"] if one["name"] == "moe-gateway"]
    assert "no memory left" in gateway["detail"]
    assert gateway["since"] > found["services"][0]["since"]


def test_each_address_has_the_scheme_that_is_spoken_there(
    house: House, consul: ConsulServer
) -> None:
    """An address that says http where TLS is on opens an error page."""
    consul.register("prometheus", 9090, scheme="https")
    consul.register("llama-rpc", 50052, scheme="tcp")
    consul.register("nomad-client", 4646)
    consul.register("oven", 8000)
    known = {"prometheus", "llama-rpc", "nomad-client", "oven"}

    found = eventually(house, lambda found: known <= set(names(found)))

    assert {one["name"]: one["url"] for one in found["services"] if one["name"] in known} == {
        "prometheus": "https://127.0.0.1:9090",
        "llama-rpc": "tcp://127.0.0.1:50052",
        "nomad-client": "https://127.0.0.1:4646",
        "oven": "http://127.0.0.1:8000",
    }


def test_consul_that_is_away_is_said_and_its_last_word_stays(
    house: House, consul: ConsulServer
) -> None:
    """A page that suddenly is empty would look as if everything had burnt down."""
    register_gateway(consul, house)
    eventually(house, lambda found: "moe-gateway" in names(found))

    consul.stop()
    found = eventually(house, lambda found: bool(found["unknown"]))

    assert found["unknown"][0].startswith("Consul does not answer, so this is its last word:")
    assert "moe-gateway" in names(found)
    assert house.ask("Hello").status_code == 200
