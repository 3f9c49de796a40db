"""Servers come and go: the second and third one, another address, a run that was cut short."""

import pytest

from hearth.lab.lab import Lab
from tests.lab.conftest import Boot, Layer
from tests.lab.playbooks import converge, play

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(900)]
PEERS = (
    "resolvectl query --legend=no consul.service.consul | grep -o '10[.]231[.]7[.][0-9]*' | sort"
)


def one(lab: Lab) -> None:
    """One machine is a whole cluster."""
    lab.up(1)
    converge(lab, nodes=1)


@pytest.fixture
def single(golden: Layer, boot: Boot) -> Lab:
    """A converged host; each test has its own."""
    return boot("servers", 1, layer=golden("one", one))


def test_second_and_third_server_join(single: Lab) -> None:
    """A home lab begins with one machine; what is on it must survive that it grows."""
    single.up(3)

    converge(single)

    for node in single.nodes():
        assert node.ssh(PEERS).split() == ["10.231.7.11", "10.231.7.12", "10.231.7.13"]
    assert set(converge(single).changed.values()) == {0}


def test_uninstall_leaves_the_host_as_it_was(single: Lab) -> None:
    """What cannot be removed is not installed lightly."""
    node = single.node("node1")

    play(
        single, "-e", "uninstall_confirm=lab", "-e", "uninstall_data=true", nodes=1,
        playbook="uninstall.yaml",
    )  # fmt: skip

    left = node.ssh("ls -d /opt/hearth /etc/consul.d /etc/hearth /var/lib/consul /var/lib/hearth "
                    "/usr/local/bin/consul 2>/dev/null || true")  # fmt: skip
    assert left == ""
    assert node.ssh("getent passwd consul hearth || true") == ""
    assert node.ssh("systemctl is-system-running").strip() == "running"


def test_uninstall_wants_the_name_of_the_cluster(single: Lab) -> None:
    """The arrow key and return must not take a cluster down."""
    ran = play(single, nodes=1, playbook="uninstall.yaml", check=False)

    assert ran.returncode != 0
    assert "uninstall_confirm=lab" in ran.output
