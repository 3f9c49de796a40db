"""A machine of the cluster sleeps, and a request for its model wakes it."""

import json
from typing import Any, Final

import pytest

from hearth.lab.lab import Lab
from hearth.lab.node import Node
from tests.lab.playbooks import play
from tests.lab.sleeper import EXPERT_PORT, Card, install_expert, remove_expert
from tests.lab.whole.asking import Unsettled, agents, answer, gateway, patiently, settle

pytestmark = [
    pytest.mark.extended, pytest.mark.hosts, pytest.mark.nomad, pytest.mark.timeout(1500),
]  # fmt: skip
EXTENDED_INPUTS = [
    "ansible/roles/moe_gateway/**", "ansible/roles/power_manager/**",
    "nomad_jobs/moe-gateway.nomad.hcl", "nomad_jobs/power-manager.nomad.hcl",
    "services.yaml", "tests/lab/sleeper.py",
]  # fmt: skip
TAGS: Final = "power_manager,moe_gateway"
SERVICE: Final = "llama-expert-cellar"


def test_machine_of_the_cluster_that_is_off_is_woken_by_a_request(cluster: Lab) -> None:
    """The address of its card comes from the playbook, its state from Consul: nothing is typed."""
    asked, node = cluster.node("node1"), cluster.node("node3")
    card = Card(cluster, node)
    ran = play(
        cluster, "--tags", TAGS,
        of_hosts={"node3": {"power_class": "sleeps", "power_manager_check_card": False}},
    )  # fmt: skip
    facts = _facts(cluster, asked)
    install_expert(node)
    _register(cluster, node)
    try:
        with card.listening():
            card.switch_off(cleanly=True)
            patiently(lambda: _is_away(cluster, asked))

            with gateway(cluster, asked) as client:
                words = answer(client, "cellar")
    finally:
        node.reconnect()
        node.start()
        node.wait()
        remove_expert(node)
        _deregister(cluster, node)
    settle(cluster)
    again = play(cluster, "--tags", TAGS)

    assert ran.returncode == again.returncode == 0
    assert facts == {
        "name": "node3", "mac": card.mac, "address": "10.231.7.13/24", "wakeable": True,
    }  # fmt: skip
    assert words == "Good morning."
    assert len([frame for frame in card.frames if frame.startswith(b"\xff" * 6)]) == 1
    with agents(cluster, asked) as (_, nomad):
        assert "power-manager" not in {row.id for row in nomad.jobs() if row.status != "dead"}


def _facts(lab: Lab, asked: Node) -> dict[str, Any]:
    with agents(lab, asked) as (consul, _):
        (entry,) = consul.session.call("GET", "kv/hearth/machines/node3")
    text = asked.ssh(f"echo {entry['Value']} | base64 -d")
    found: dict[str, Any] = json.loads(text)
    return found


def _register(lab: Lab, node: Node) -> None:
    """Tell the machine's Consul of its expert, as a launcher does."""
    service = {
        "ID": SERVICE, "Name": SERVICE, "Port": EXPERT_PORT, "Address": str(node.address),
        "Meta": {"expert": "cellar", "model": "big", "scheme": "http", "auto": "false"},
    }  # fmt: skip
    _put(lab, node, "agent/service/register", service)

    def is_known() -> bool:
        with gateway(lab, node) as client:
            if not answer(client, "cellar"):
                raise Unsettled("the expert did not answer")
        return True

    patiently(is_known)


def _deregister(lab: Lab, node: Node) -> None:
    patiently(lambda: _put(lab, node, f"agent/service/deregister/{SERVICE}", {}))


def _put(lab: Lab, node: Node, path: str, body: dict[str, Any]) -> bool:
    with agents(lab, node) as (consul, _):
        consul.session.call("PUT", path, body)
    return True


def _is_away(lab: Lab, asked: Node) -> bool:
    """Whether the gateway knows from Consul that the machine is away."""
    with gateway(lab, asked) as client:
        experts = client.get("/api/experts").raise_for_status().json()["experts"]
        cellar = next(one for one in experts if one["name"] == "cellar")
        if any(one["healthy"] for one in cellar["instances"]):
            raise Unsettled("the gateway still counts on the machine")
    return True
