"""Bare Debian hosts brought to Consul, Docker and our own code; everything that needs no Nomad."""

import re
from collections.abc import Iterator

import pytest

from hearth.cluster import binaries
from hearth.lab.lab import Lab
from tests.lab.conftest import Boot, Golden
from tests.lab.layers import KEPT, MACHINES, kv
from tests.lab.playbooks import MACHINE_TAGS, changed_by_each, fetch, play

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(900)]
EXTENDED_INPUTS = [
    "playbook.yaml", "services.yaml", "ansible/plugins/**", "ansible/roles/consul/**",
    "ansible/roles/docker/**", "ansible/roles/hearth_release/**", "ansible/roles/host/**",
    "ansible/roles/preflight_checks/**", "group_vars/**", "inventory/lab.yaml",
]  # fmt: skip
PEERS = (
    "resolvectl query --legend=no consul.service.consul | grep -o '10[.]231[.]7[.][0-9]*' | sort"
)
LISTEN = "python3 -m http.server 20001 >/dev/null 2>&1 & echo $! >/run/listener; sleep 1"
REACH = "python3 -c 'import socket; socket.create_connection((\"{}\", 20001), timeout=3)'"
TAGS = ["host", "host_configure", "docker", "consul", "consul_configure", "hearth_release"]
"""Those of the roles that need Nomad are run in tests/lab/whole/test_cluster.py."""


@pytest.fixture(scope="module")
def cluster(golden: Golden, boot: Boot) -> Iterator[Lab]:
    """Three converged hosts; who uses them leaves them as they were."""
    lab = boot("cluster", 3, layer=golden(MACHINES).layer)
    yield lab
    lab.down()


@pytest.mark.extended
def test_check_of_bare_hosts_says_what_would_be_done(bare: Lab) -> None:
    """A person looks before the first run, too; nothing may be changed or missing for that.

    Where there is a Nomad to bring to them, all of the playbook is looked at.
    """
    has_nomad = binaries.find("nomad") is not None
    fetch()

    ran = play(bare, "--check", "--diff", *([] if has_nomad else ["--tags", MACHINE_TAGS]))

    assert ran.changed.keys() == {"node1", "node2", "node3"}
    for node in bare.nodes():
        assert ran.changed[node.name] > 0
        assert not node.ssh("ls /opt").strip()
    assert ran.output.count("after: /etc/consul.d/consul.json") == 0
    assert '+    "datacenter": "dc1"' in ran.output or "consul.json" in ran.output
    assert ('+job "moe-gateway" {' in ran.output) == has_nomad


def test_machine_with_a_newer_release_runs_the_same_code(cluster: Lab) -> None:
    """New machines come with Debian 13, and old ones are not installed again for that."""
    about = ". /etc/os-release; echo $VERSION_ID; /opt/hearth/current/venv/bin/python --version"
    found = {node.name: node.ssh(about).split() for node in cluster.nodes()}

    assert {name: (words[0], words[2][:4]) for name, words in found.items()} == {
        "node1": ("12", "3.11"), "node2": ("12", "3.11"), "node3": ("13", "3.13"),
    }  # fmt: skip
    assert "doctor" in cluster.node("node3").ssh("/opt/hearth/current/venv/bin/hearth --help")


@pytest.mark.proves("004-45")
def test_machine_that_cannot_be_written_stops_the_run_before_anything_changes(bare: Lab) -> None:
    """A disk that went read-only is found at once, and told with what to do."""
    node = bare.node("node1")
    node.ssh("mount --bind /opt /opt && mount -o remount,bind,ro /opt")
    try:
        ran = play(bare, "--tags", "preflight_checks,host", nodes=1, check=False)
    finally:
        node.ssh("umount /opt")

    assert ran.returncode != 0
    assert "node1 cannot be part of the cluster yet" in ran.output
    assert "mount -o remount,rw /opt" in ran.output
    assert "TASK [host : " not in ran.output


@pytest.mark.extended
@pytest.mark.proves("004-32")
def test_machine_has_the_value_that_is_declared_nearest_to_it(cluster: Lab) -> None:
    """What holds for all is said once; a cluster, and a machine of it, may differ by one line.

    A check shows what follows from that and no other difference: it is how one asks whether
    somebody has changed a machine by hand.
    """
    ran = play(
        cluster, "--check", "--diff", "--tags", MACHINE_TAGS,
        variables={"cluster_domain": "ours", "consul_domain": "consul"},
        of_hosts={"node2": {"cluster_domain": "mine"}},
    )  # fmt: skip

    shown = dict(re.findall(r"\+Domains=~(\w+)\n(?:.*\n)*?changed: \[(\w+)\]", ran.output))
    assert ran.output.count("-Domains=~consul\n") == 3
    assert (shown["mine"], ran.output.count("+Domains=~ours\n")) == ("node2", 2)
    # Their certificates are for names in it, too.
    assert re.findall(r"^TASK \[(.*?)\]", ran.changes, re.MULTILINE) == [
        "host : Configure the resolver to forward cluster names to Consul",
        "certificate : Write the certificate files",
    ], ran.changes  # fmt: skip
    assert set(ran.changed.values()) == {2}, ran.changes


@pytest.mark.extended
def test_tag_of_a_role_alone_changes_nothing(cluster: Lab) -> None:
    """One role is run alone while one works on it."""
    assert changed_by_each(cluster, TAGS) == {}


def test_second_and_third_server_join_the_first(cluster: Lab) -> None:
    """A home lab begins with one machine; what is on it must survive that it grows."""
    for node in cluster.nodes():
        assert node.ssh(PEERS).split() == ["10.231.7.11", "10.231.7.12", "10.231.7.13"]
        assert node.ssh(kv(f"get {KEPT}")).strip() == "before"


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
    assert "before" not in node.ssh(f"consul kv get {KEPT} 2>&1 || true")


@pytest.mark.proves("004-48")
def test_passwordless_sudo_is_taken_away(cluster: Lab) -> None:
    """Images of clouds let their first user become root without a word."""
    node = cluster.node("node1")
    node.ssh("umask 0227; echo 'first ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/90-cloud")
    options = ["--limit", "node1", "--tags", "host_users"]

    play(cluster, *options, "-e", "host_remove_passwordless_sudo=true")

    rights = node.ssh("visudo -c >/dev/null && cat /etc/sudoers /etc/sudoers.d/* && "
                      "rm /etc/sudoers.d/90-cloud")  # fmt: skip
    assert "first ALL=(ALL) ALL" in rights
    assert "NOPASSWD" not in rights


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
