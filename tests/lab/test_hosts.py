"""Bare Debian hosts brought to Consul, Docker and our own code; everything that needs no Nomad."""

import pytest

from hearth.lab.lab import Lab
from tests.lab.conftest import Boot, Layer
from tests.lab.playbooks import MACHINES, converge, play

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(900)]
LISTEN = "python3 -m http.server 20001 >/dev/null 2>&1 & echo $! >/run/listener; sleep 1"
REACH = "python3 -c 'import socket; socket.create_connection((\"{}\", 20001), timeout=3)'"


def three(lab: Lab) -> None:
    """Three servers, from nothing."""
    lab.up(3)
    converge(lab)


@pytest.fixture
def cluster(golden: Layer, boot: Boot) -> Lab:
    """Three converged hosts; who uses them leaves them as they were."""
    return boot("cluster", 3, layer=golden("machines", three))


def test_check_of_bare_hosts_says_what_would_be_done(bare: Lab) -> None:
    """A person looks before the first run, too; nothing may be changed or missing for that."""
    ran = play(bare, "--check", "--diff", "--tags", MACHINES)

    assert ran.returncode == 0
    assert '+    "datacenter": "dc1"' in ran.output or "consul.json" in ran.output
    assert not bare.node("node1").ssh("ls /opt").strip()


def test_second_run_changes_nothing(cluster: Lab) -> None:
    """Whoever is unsure runs it again; that must never restart a service."""
    started = cluster.node("node1").ssh("systemctl show --property ActiveEnterTimestamp consul")

    ran = converge(cluster)

    assert ran.changed == {"node1": 0, "node2": 0, "node3": 0}, ran.changes
    assert started == cluster.node("node1").ssh(
        "systemctl show --property ActiveEnterTimestamp consul"
    )


def test_check_of_converged_hosts_shows_no_difference(cluster: Lab) -> None:
    """The check is how one asks whether somebody has changed a machine by hand."""
    ran = play(cluster, "--check", "--diff", "--tags", MACHINES)

    assert set(ran.changed.values()) == {0}, ran.changes


@pytest.mark.parametrize("role", ["host", "docker", "consul", "hearth_release"])
@pytest.mark.parametrize("part", ["", "_configure"])
def test_tag_of_a_role_alone_changes_nothing(cluster: Lab, role: str, part: str) -> None:
    """One role is run alone while one works on it."""
    ran = converge(cluster, tags=role + part)

    assert set(ran.changed.values()) <= {0}, ran.changes


def test_names_of_services_resolve_on_every_host(cluster: Lab) -> None:
    """Services find each other by name, and Consul's port clashes with nobody's."""
    for node in cluster.nodes():
        found = node.ssh("resolvectl query --legend=no consul.service.consul")
        assert found.count("10.231.7.") == 3


def test_our_own_code_runs_on_every_host(cluster: Lab) -> None:
    """The same files everywhere, without an index of Python packages."""
    for node in cluster.nodes():
        said = node.ssh("runuser -u hearth -- /opt/hearth/current/venv/bin/hearth --help")
        assert "Usage" in said


def test_services_run_as_users_of_their_own(cluster: Lab) -> None:
    """Who breaks into Consul must not be root."""
    node = cluster.node("node1")

    assert node.ssh("ps -o user= -C consul").strip() == "consul"
    assert "NOPASSWD" not in node.ssh("cat /etc/sudoers /etc/sudoers.d/* 2>/dev/null || true")
    assert "(none)" in node.ssh("curl -s http://127.0.0.1:8500/v1/kv/?keys || echo '(none)'")


def test_ports_between_machines_are_closed_to_others(cluster: Lab) -> None:
    """llama-rpc runs what it is sent: only machines of the cluster may reach its port."""
    node = cluster.node("node1")
    node.ssh(LISTEN)
    try:
        cluster.node("node2").ssh(REACH.format("10.231.7.11"))
        outside = cluster.run(["sh", "-c", REACH.format("10.231.7.11")], check=False)
    finally:
        node.ssh("kill $(cat /run/listener)")

    assert outside.returncode != 0
    assert "timed out" in outside.stderr


def test_reboot_of_a_server_leaves_a_healthy_host(cluster: Lab) -> None:
    """The order of the units is right only if nobody has to help."""
    node = cluster.node("node2")

    node.reboot()

    node.ssh("timeout 120 sh -c 'until systemctl is-system-running --quiet; do sleep 1; done'")
    node.ssh("timeout 60 sh -c 'until resolvectl query consul.service.consul; do sleep 1; done'")
    assert node.ssh("systemctl is-active consul docker hearth-firewall").split() == ["active"] * 3
