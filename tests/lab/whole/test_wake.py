"""A machine of the cluster goes to sleep when it is idle, and a request for its model wakes it."""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from hearth.lab.lab import Lab
from hearth.lab.node import Node
from tests.lab.playbooks import Ran, play
from tests.lab.sleeper import Card
from tests.lab.whole.asking import (
    Unsettled,
    agents,
    complete,
    gateway,
    machine_of,
    patiently,
    settle,
)

pytestmark = [
    pytest.mark.extended, pytest.mark.hosts, pytest.mark.nomad, pytest.mark.timeout(1500),
]  # fmt: skip
EXTENDED_INPUTS = [
    "ansible/roles/bootstrap_agent/**", "ansible/roles/llama_expert/**",
    "ansible/roles/moe_gateway/**", "ansible/roles/power_manager/**",
    "nomad_jobs/llama-expert.nomad.hcl", "nomad_jobs/moe-gateway.nomad.hcl",
    "nomad_jobs/power-manager.nomad.hcl", "power_manager/**", "services.yaml",
    "tests/lab/sleeper.py",
]  # fmt: skip
TAGS: Final = "power_manager,moe_gateway"
JOB: Final = "llama-expert-cellar"
SLEEPS: Final = {
    "power_class": "sleeps", "power_manager_check_card": False, "power_manager_ask_seconds": 2,
    "power_manager_sleep_after_minutes": 0.05, "power_manager_sleep_action": "poweroff",
}  # fmt: skip
ASKED: Final = {
    "model": "cellar", "max_tokens": 12, "messages": [{"role": "user", "content": "Say hello."}],
}  # fmt: skip
CELLAR: Final = {
    "about": "It runs on the machine that sleeps.", "models": ["smollm2"], "machines": ["node3"],
    "context": 1024, "slots": 1, "threads": 1, "auto": False,
}  # fmt: skip


def test_idle_machine_of_the_cluster_switches_itself_off_and_is_woken(cluster: Lab) -> None:
    """The address of its card comes from the playbook, its state from Consul: nothing is typed.
    It stays on while somebody is logged in. After the wake, Nomad starts its model again."""
    asked, node = cluster.node("node1"), cluster.node("node3")
    card = Card(cluster, node)
    with logged_in(node):
        ran = _deploy(cluster, asked)
        facts = _facts(cluster, asked)
        patiently(lambda: _says(cluster, asked, "root is logged in."))
    try:
        with card.listening():
            patiently(lambda: _is_off(node))
            node.partition()
            patiently(lambda: _is_away(cluster, asked))

            with gateway(cluster, asked) as client:
                answered = client.post("/v1/chat/completions", json=ASKED, timeout=300)
                place = machine_of(client, "cellar")
    finally:
        card.switch_on()
    with logged_in(node):
        again = _restore(cluster, asked)
    left = node.ssh("systemctl list-unit-files --no-legend 'hearth-sleep*'; ls /etc/hearth")

    assert ran.returncode == again.returncode == 0
    assert facts == {
        "name": "node3", "mac": card.mac, "address": "10.231.7.13/24", "wakeable": True,
        "sleep_after_seconds": 3.0,
    }  # fmt: skip
    assert answered.json()["choices"][0]["message"]["content"], answered.text
    assert (answered.headers["x-hearth-expert"], place) == ("cellar", "node3")
    assert re.search("sleep|power.key", left) is None
    assert len([frame for frame in card.frames if frame.startswith(b"\xff" * 6)]) == 1
    with agents(cluster, asked) as (_, nomad):
        assert "power-manager" not in {row.id for row in nomad.jobs() if row.status != "dead"}


@contextmanager
def logged_in(node: Node) -> Iterator[None]:
    """Somebody is logged in on the machine."""
    with subprocess.Popen([*node.ssh_command(), "cat"], stdin=subprocess.PIPE) as person:
        try:
            yield
        finally:
            person.communicate()


def _deploy(lab: Lab, asked: Node) -> Ran:
    """Let the machine sleep, and run an expert on it."""
    ran = play(
        lab, "--tags", f"{TAGS},bootstrap_agent", of_hosts={"node3": SLEEPS},
        variables={
            "power_manager_settings": {"quiet_seconds": "2", "check_seconds": "1"},
            "experts": {"cellar": CELLAR}, "experts_deployed": ["cellar"],
        },
    )  # fmt: skip
    with gateway(lab, asked) as client:
        patiently(lambda: complete(client, "cellar"))
    return ran


def _restore(lab: Lab, asked: Node) -> Ran:
    """Let the machine be always on, without the expert."""
    with agents(lab, asked) as (_, nomad):
        patiently(lambda: nomad.stop(JOB, purge=True))
    settle(lab)
    return play(lab, "--tags", TAGS)


def _facts(lab: Lab, asked: Node) -> dict[str, Any]:
    with agents(lab, asked) as (consul, _):
        (entry,) = consul.session.call("GET", "kv/hearth/machines/node3")
    text = asked.ssh(f"echo {entry['Value']} | base64 -d")
    found: dict[str, Any] = json.loads(text)
    return found


def _is_away(lab: Lab, asked: Node) -> bool:
    """Whether the gateway knows from Consul that the machine is away."""
    with gateway(lab, asked) as client:
        experts = client.get("/api/experts").raise_for_status().json()["experts"]
        cellar = next(one for one in experts if one["name"] == "cellar")
        if any(one["healthy"] for one in cellar["instances"]):
            raise Unsettled("the gateway still counts on the machine")
    return True


def _says(lab: Lab, asked: Node, reason: str) -> bool:
    """Whether the power manager shows this reason for which the machine is awake."""
    with gateway(lab, asked) as client:
        report = client.get(f"https://{asked.address}:8094/api/machines/node3").raise_for_status()
        if report.json()["reason"] != reason:
            raise Unsettled(report.text)
    return True


def _is_off(node: Node) -> bool:
    if node.is_powered():
        raise Unsettled("it is still on")
    return True
