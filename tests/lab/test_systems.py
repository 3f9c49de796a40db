"""Hosts with another system than Debian 12: what the roles do there, up to Hearth's own code."""

import pytest

from tests.lab.conftest import Boot
from tests.lab.playbooks import MACHINE_TAGS, play, release

EXTENDED_INPUTS = [
    "ansible/roles/preflight_checks/**", "ansible/roles/host/**", "ansible/roles/docker/**",
    "ansible/roles/consul/**", "ansible/roles/hearth_release/**", "hearth/lab/systems.py",
]  # fmt: skip
pytestmark = [pytest.mark.extended, pytest.mark.hosts, pytest.mark.timeout(1800)]


def test_host_with_ubuntu_becomes_a_server_of_a_cluster(boot: Boot) -> None:
    """Many machines of homes run Ubuntu; its packages, its Python and its AppArmor differ."""
    release("3.12")
    lab = boot("ubuntu", 1, system="ubuntu-24.04")
    node = lab.node("node1")

    ran = play(lab, "--tags", MACHINE_TAGS, nodes=1)
    again = play(lab, "--tags", MACHINE_TAGS, nodes=1)

    assert "WARN system" not in ran.output
    assert again.changed == {"node1": 0}, again.changes
    assert "Ubuntu 24.04" in node.ssh("cat /etc/os-release")
    assert node.ssh("/opt/hearth/current/venv/bin/python --version").startswith("Python 3.12")
    assert "doctor" in node.ssh("/opt/hearth/current/venv/bin/hearth --help")
    assert node.ssh("docker info --format '{{.ServerVersion}}'").strip()
    assert node.ssh("systemctl is-active consul docker").split() == ["active", "active"]
    assert "userns" in node.ssh("cat /etc/apparmor.d/hearth-bwrap")
    lab.down()
