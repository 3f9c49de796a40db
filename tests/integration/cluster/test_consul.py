"""The client of Consul against a real one, with access control and TLS."""

import socket
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from hearth.cluster.acl.bootstrap import bootstrap_consul
from hearth.cluster.consul import Consul
from hearth.cluster.endpoint import Answer, Endpoint
from hearth.cluster.errors import BootstrapLost, Denied, Unreachable, Untrusted
from tests.integration.cluster.agents import Agent, consul_agent, wait_for
from tests.integration.cluster.conftest import CONSUL_TOKEN
from tests.ports import free_port

STRANGER = "e0000000-1111-4222-8333-444444444444"
APPEARS = "health/service/appears"


def _register(consul: Consul, name: str) -> None:
    body = {"Name": name, "Port": 4000, "Tags": ["metrics"], "Meta": {"model": "tiny"}}
    consul.session.call("PUT", "agent/service/register", body)


def test_server_of_another_authority_is_not_trusted(consul_server: Agent) -> None:
    """A machine that took over an address must not be given our token."""
    unknown = replace(consul_server.endpoint, ca_file=None)

    with Consul(unknown) as consul, pytest.raises(Untrusted, match="cannot be trusted"):
        consul.leader()


def test_token_of_the_environment_never_beats_ours(
    consul_server: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shell that was used for another cluster must not decide what we may do."""
    monkeypatch.setenv("CONSUL_HTTP_TOKEN", STRANGER)
    monkeypatch.setenv("CONSUL_HTTP_ADDR", "http://127.0.0.1:9")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")

    with Consul(consul_server.known_as(CONSUL_TOKEN)) as consul:
        assert [member.name for member in consul.members()] == ["solo"]


def test_environment_gives_no_token_to_who_has_none(
    consul_server: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read that shall be anonymous stays anonymous."""
    monkeypatch.setenv("CONSUL_HTTP_TOKEN", CONSUL_TOKEN)

    with Consul(consul_server.endpoint) as consul, pytest.raises(Denied):
        consul.peers()


def test_silent_agent_does_not_hold_us_up() -> None:
    """A machine that is cut off neither answers nor refuses."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        started = time.monotonic()
        with (
            Consul(Endpoint(address, timeout=0.3)) as consul,
            pytest.raises(Unreachable, match="did not answer in time"),
        ):
            consul.members()

    assert time.monotonic() - started < Endpoint(address).timeout


def test_nobody_there_is_said_with_the_address() -> None:
    """The message says what to look at."""
    port = free_port()

    with (
        Consul(Endpoint(f"http://127.0.0.1:{port}")) as consul,
        pytest.raises(Unreachable, match=rf"http://127.0.0.1:{port} .*refused.*systemctl status"),
    ):
        consul.leader()


def test_instances_come_with_their_checks(consul: Consul, consul_server: Agent) -> None:
    """What the gateway and the status page show comes from here."""
    _register(consul, "seen")

    # An agent tells the catalogue in its own time.
    wait_for(lambda: consul.instances("seen"), consul_server)
    (instance,) = consul.instances("seen")

    assert (instance.address, instance.port, instance.meta) == (
        "127.0.0.1",
        4000,
        {"model": "tiny"},
    )
    assert instance.healthy
    assert consul.services()["seen"] == ["metrics"]


def test_blocking_query_returns_when_an_instance_appears(consul: Consul) -> None:
    """A new instance is used at once, without asking again and again."""
    before = consul.block(APPEARS, 0, wait=1)
    timer = threading.Timer(0.5, _register, [consul, "appears"])
    timer.start()

    started = time.monotonic()
    after = consul.block(APPEARS, before.index, wait=60)
    while not after.value:  # What another service does wakes us, too.
        after = consul.block(APPEARS, after.index, wait=60)
    timer.join()

    assert before.value == []
    assert [row["Service"]["Service"] for row in after.value] == ["appears"]
    assert after.index > before.index
    assert time.monotonic() - started < 50


def test_blocking_query_ends_after_its_time(consul: Consul) -> None:
    """Nothing changed is an answer, too."""
    before = consul.block("health/service/quiet", 0, wait=1)

    after = consul.block("health/service/quiet", before.index, wait=0.3)
    while after.index != before.index:  # Another service was still being written down.
        before, after = after, consul.block("health/service/quiet", after.index, wait=0.3)

    assert after == Answer(before.index, [])


def test_critical_check_is_found_with_its_output(consul: Consul, consul_server: Agent) -> None:
    """The probe of drift explains what is wrong in the words of the check."""
    body = {"Name": "sick", "Check": {"CheckID": "sick-1", "TTL": "1h", "Status": "passing"}}
    consul.session.call("PUT", "agent/service/register", body)
    consul.session.call("PUT", "agent/check/fail/sick-1", params={"note": "no pulse"})

    def found() -> dict[str, str]:
        return {c.check_id: c.output for c in consul.checks() if c.service == "sick"}

    wait_for(lambda: found() == {"sick-1": "no pulse"}, consul_server)
    consul.session.call("PUT", "agent/service/deregister/sick")
    wait_for(lambda: found() == {}, consul_server)

    assert found() == {}


def test_bootstrap_is_done_once_with_our_own_token(tmp_path: Path) -> None:
    """A token that was written down first cannot be lost between two steps."""
    with consul_agent(tmp_path) as agent:
        assert bootstrap_consul(agent.endpoint, CONSUL_TOKEN, write=False)
        assert bootstrap_consul(agent.endpoint, CONSUL_TOKEN)
        assert not bootstrap_consul(agent.endpoint, CONSUL_TOKEN)

        with Consul(agent.known_as(CONSUL_TOKEN)) as consul:
            rows = consul.session.call("GET", "acl/tokens")
            management = [r for r in rows if r.get("Policies")]
        assert [r["SecretID"] for r in management] == [CONSUL_TOKEN]


def test_lost_bootstrap_stops_with_a_recipe_that_works(tmp_path: Path) -> None:
    """Never a loop, never data deleted: the exact words bring back who lost the file."""
    with consul_agent(tmp_path) as agent:
        bootstrap_consul(agent.endpoint, STRANGER)

        with pytest.raises(BootstrapLost, match=r"echo \d+ > /var/lib/consul/") as caught:
            bootstrap_consul(agent.endpoint, CONSUL_TOKEN)
        index = caught.value.recipe.partition("echo ")[2].split()[0]
        (agent.data / "acl-bootstrap-reset").write_text(index)

        assert bootstrap_consul(agent.endpoint, CONSUL_TOKEN)
        assert not bootstrap_consul(agent.endpoint, STRANGER)
