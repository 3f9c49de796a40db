"""What users see while machines and cables fail, and that everything comes back by itself."""

import pytest

from hearth.cluster.drift import services
from hearth.cluster.drift.repair import repair
from hearth.lab.lab import Lab
from hearth.lab.node import Node
from tests.lab.layers import kv
from tests.lab.whole.asking import (
    Unsettled,
    agents,
    answer,
    chat,
    gateway,
    machine_of,
    patiently,
    settle,
)

pytestmark = [pytest.mark.hosts, pytest.mark.nomad, pytest.mark.timeout(1500)]
EXTENDED_INPUTS = [
    "ansible/roles/consul/**", "ansible/roles/docker/**", "ansible/roles/host/**",
    "ansible/roles/nomad/**", "nomad_jobs/**",
    "tests/lab/whole/asking.py",
]  # fmt: skip

WRITES = """
{{ while timeout 5 {}; do sleep 1; done; echo refused; }} >/run/minority 2>&1 &
"""


@pytest.mark.extended
def test_majority_goes_on_and_a_machine_that_is_cut_off_decides_nothing(cluster: Lab) -> None:
    """A cable falls out: users are answered, and what is decided is decided once."""
    lone, asked = _lone(cluster)
    everywhere = _everywhere(cluster, asked)
    lone.ssh(WRITES.format(f"env {kv('put tests/minority yes')}"))

    lone.partition()
    try:
        patiently(lambda: _missed(cluster, asked, lone))
        asked.ssh(kv("put tests/majority yes"))
        words = chat(cluster, asked)
    finally:
        lone.reconnect()
    lone.wait()
    kept = patiently(lambda: lone.ssh(kv("get tests/majority")))
    settle(cluster)

    assert words
    assert _everywhere(cluster, asked) == everywhere
    assert "refused" in lone.ssh("cat /run/minority")
    assert kept.strip() == "yes"
    with agents(cluster, asked) as (_, nomad):
        assert len([a for a in nomad.allocations("llama-expert-general") if a.runs]) == 1
    patiently(lambda: _one_may_fail(cluster, asked))


@pytest.mark.extended
def test_chat_goes_on_when_the_machine_of_the_expert_dies(cluster: Lab) -> None:
    """The plug is pulled: the expert is placed elsewhere, and whoever asks gets answers again."""
    with gateway(cluster, cluster.node("node1")) as client:
        lost = machine_of(client, "general")
    left = next(node for node in cluster.nodes() if node.name != lost)
    patiently(lambda: _one_may_fail(cluster, left))

    def moved() -> str:
        with gateway(cluster, left) as client:
            assert answer(client)
            return machine_of(client, "general")

    cluster.node(lost).kill()
    try:
        found = patiently(moved)
    finally:
        cluster.node(lost).reboot()

    assert found != lost
    patiently(lambda: forget_stale_entries(cluster, left))
    settle(cluster)


def forget_stale_entries(cluster: Lab, asked: Node) -> bool:
    """Remove entries of services that ran on a machine which failed and is back, as a heal does.

    The Consul of the lab (before 1.15) keeps them, because the token that registered them was
    revoked meanwhile; then a client that takes the first address may get one where nothing listens.
    """
    with agents(cluster, asked) as (consul, nomad):
        if any(node.status != "ready" for node in nomad.nodes()):
            raise Unsettled("a machine is not ready")
        for finding in list(services.diagnose(consul, nomad)):
            repair(finding, consul, nomad, {})
    return True


@pytest.mark.extended
def test_everything_comes_back_when_a_server_is_rebooted(cluster: Lab) -> None:
    """The machine with the agent's state and the figures, after an update of its kernel."""
    cluster.node("node1").reboot()

    settle(cluster)
    assert chat(cluster, cluster.node("node1"))


def _lone(lab: Lab) -> tuple[Node, Node]:
    """A machine without which users can be answered, and another one."""
    with agents(lab, lab.node("node1")) as (consul, _):
        busy = {one.node for one in consul.instances("moe-gateway", passing=True)}
    with gateway(lab, lab.node("node1")) as client:
        busy.add(machine_of(client, "general"))
    lone = next(node for node in reversed(lab.nodes()) if node.name not in busy)
    return lone, next(node for node in lab.nodes() if node.name in busy)


def _missed(lab: Lab, asked: Node, lone: Node) -> bool:
    """Whether the others have noticed."""
    with agents(lab, asked) as (_, nomad):
        if any(node.name == lone.name and node.status == "ready" for node in nomad.nodes()):
            raise Unsettled(f"{lone.name} still counts as ready")
    return True


def _everywhere(lab: Lab, asked: Node) -> set[str]:
    """The allocations of jobs that run on every machine, where nothing could take their place."""
    with agents(lab, asked) as (_, nomad):
        jobs = [row.id for row in nomad.jobs() if row.type == "system"]
        return {one.id for job in jobs for one in nomad.allocations(job) if one.runs}


def _one_may_fail(lab: Lab, asked: Node) -> bool:
    """Whether there is a majority without any one server.

    Nomad and Consul remove a server that was away, and give it its vote back after some seconds.
    """
    with agents(lab, asked) as clients:
        for client in clients:
            health = client.session.call("GET", "operator/autopilot/health")
            if health["FailureTolerance"] < 1:
                raise Unsettled(f"no server may fail: {health}")
    return True
