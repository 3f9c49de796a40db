"""What users see while machines fail, and that everything comes back by itself.

After the tests that look for drift: an old Consul remembers what died with a machine.
"""

import pytest

from hearth.lab.lab import Lab
from tests.lab.whole.asking import answer, chat, gateway, machine_of, patiently, settle

pytestmark = [pytest.mark.hosts, pytest.mark.nomad, pytest.mark.timeout(1500)]


def test_chat_goes_on_when_the_machine_of_the_expert_dies(cluster: Lab) -> None:
    """The plug is pulled: the expert is placed elsewhere, and whoever asks gets answers again."""
    with gateway(cluster, cluster.node("node1")) as client:
        lost = machine_of(client, "general")
    left = next(node for node in cluster.nodes() if node.name != lost)

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
    settle(cluster)


def test_everything_comes_back_when_a_server_is_rebooted(cluster: Lab) -> None:
    """The machine with the agent's state and the figures, after an update of its kernel."""
    cluster.node("node1").reboot()

    settle(cluster)
    assert chat(cluster, cluster.node("node1"))
