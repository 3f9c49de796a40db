"""The lab itself: hosts that behave as machines do, side by side, and nothing left of them."""

import os
import signal
import socket
from contextlib import suppress

import psutil
import pytest

from hearth.lab.errors import ProgramFailed, SnapshotExists, SnapshotInUse
from hearth.lab.host_group import HostGroup
from hearth.lab.lab import Lab
from hearth.lab.node import Node
from tests.lab.conftest import Boot
from tests.lab.traces import locks, nothing, traces

pytestmark = pytest.mark.hosts


def test_hosts_are_whole_machines_with_their_own_names(bare: Lab) -> None:
    """An inventory is tried on what it will meet: systemd, ssh, one identity each."""
    hosts = [
        node.ssh("systemctl is-system-running --wait; hostname; hostname -I; cat /etc/machine-id")
        for node in bare.nodes()
    ]

    lines = [text.split() for text in hosts]
    assert [line[:3] for line in lines] == [
        ["running", "node1", "10.231.7.11"],
        ["running", "node2", "10.231.7.12"],
        ["running", "node3", "10.231.7.13"],
    ]
    assert len({line[3] for line in lines}) == 3


def test_nothing_in_a_lab_reaches_the_world(bare: Lab) -> None:
    """What is tried in the lab must not touch the machines of the home."""
    with bare.inside(), pytest.raises(OSError, match="unreachable"):
        socket.create_connection(("192.0.2.1", 80), timeout=5)
    # Told that there is no way, or told nothing: that depends on this machine's own forwarding.
    with pytest.raises(ProgramFailed, match=" 0 received"):
        bare.node("node1").ssh("ping -c 1 -W 2 192.0.2.1 2>&1")


def test_hosts_reach_each_other_until_a_cable_is_cut(bare: Lab) -> None:
    """A partition is the fault that clusters are made for."""
    first, second = bare.node("node1"), bare.node("node2")
    ping = "ping -c 1 -W 1 10.231.7.12"

    first.ssh(ping)
    second.partition()
    try:
        assert second.status().model_dump(include={"state", "connected"}) == {
            "state": "booting", "connected": False,
        }  # fmt: skip
        with pytest.raises(ProgramFailed):
            first.ssh(ping)
    finally:
        second.reconnect()
    second.wait(10)

    first.ssh(ping)


def test_packages_come_through_the_proxy_and_from_nowhere_else(bare: Lab) -> None:
    """Hosts without a network must still be installed on."""
    node = bare.node("node3")

    node.ssh("apt-get update && apt-get install --yes hello && apt-get purge --yes hello")

    assert "10.231.7.1:3142" in node.ssh("apt-config dump Acquire::http::Proxy")


def test_reboot_keeps_the_disk_and_nothing_else(bare: Lab) -> None:
    """After a reboot only what was enabled runs: that is what the test of a role is about."""
    node = bare.node("node2")
    node.ssh("touch /etc/on-the-disk /run/in-memory")
    before = _born(node.group.processes())

    node.reboot()

    assert node.ssh("ls /etc/on-the-disk /run/in-memory 2>/dev/null; true").split() == [
        "/etc/on-the-disk"
    ]
    assert before.isdisjoint(_born(node.group.processes() - _keepers(node)))
    node.ssh("rm /etc/on-the-disk")


def test_power_loss_ends_everything_at_once_and_keeps_what_was_written(bare: Lab) -> None:
    """The hardest fault of a machine must be as hard here."""
    node = bare.node("node3")
    node.ssh(
        "echo kept > /var/tmp/written; systemd-run --unit=late sh -c "
        "'trap \"echo late > /var/tmp/late\" TERM; sleep 1000'"
    )

    node.kill()

    assert node.state() == "off"
    assert bare.node("node1").state() == "on"
    node.reboot()
    assert node.ssh("cat /var/tmp/written; ls /var/tmp/late 2>/dev/null; true").split() == ["kept"]
    node.ssh("rm /var/tmp/written")


def test_host_answers_at_the_address_it_was_moved_to(bare: Lab) -> None:
    """Routers hand out other addresses one day, and a cluster must live with it."""
    bare.move("node3", "10.231.7.33")
    try:
        assert bare.node("node3").ssh("hostname -I").split() == ["10.231.7.33"]
    finally:
        bare.move("node3", "10.231.7.13")


def test_wiped_host_is_bare_with_its_name_and_its_address(bare: Lab) -> None:
    """A disk dies, and the machine comes back with another one: what helps then can be tried."""
    node = bare.node("node3")
    before = node.host_key()
    node.ssh("touch /var/tmp/written /var/lib/docker/written")

    bare.wipe("node3")

    assert node.ssh("hostname; hostname -I").split() == ["node3", "10.231.7.13"]
    assert node.ssh("ls /var/tmp/written /var/lib/docker/written 2>/dev/null; true") == ""
    assert node.host_key() != before


def test_layer_is_a_beginning_for_another_lab_side_by_side(boot: Boot) -> None:
    """What took minutes to converge is made once, and broken as often as a scenario wants."""
    first = boot("first", 1)
    first.node("node1").ssh("echo golden > /etc/golden; mkdir /var/lib/docker/volumes")
    name = f"{first.name}-layer"
    first.save(name)
    first.node("node1").ssh("echo changed > /etc/golden")

    second = boot("second", 2, layer=name)

    assert second.node("node1").ssh("cat /etc/golden; ls /var/lib/docker") == "golden\nvolumes\n"
    assert first.node("node1").ssh("cat /etc/golden") == "changed\n"
    with pytest.raises(ProgramFailed):
        second.node("node2").ssh("cat /etc/golden")
    with pytest.raises(SnapshotInUse):
        second.drop(name)
    with pytest.raises(SnapshotExists):
        second.save(name)
    for lab in (first, second):
        lab.down()
    second.drop(name)
    assert name not in second.snapshots.names()


def test_changes_are_what_was_written_on_the_disk(bare: Lab) -> None:
    """Whether uninstalling leaves anything is seen on the disk, not by asking the uninstaller."""
    node = bare.node("node1")
    before = node.disk.changes()

    node.ssh("echo x > /etc/added; rm /etc/issue.net; mkdir -p /opt/empty; echo y > /run/volatile")
    added = node.disk.changes() - before
    node.ssh("rm /etc/added; rmdir /opt/empty")

    assert {"etc/added", "etc/issue.net"} <= added
    assert not any(path.startswith("run/") for path in added)
    assert "etc/added" not in node.disk.changes()


def test_down_leaves_nothing(boot: Boot) -> None:
    """A lab on a laptop must be gone when it is done with, also after what users do inside."""
    held = locks()
    lab = boot("gone", 2)
    lab.node("node1").kill()
    with lab.inside():
        process = os.spawnlp(os.P_NOWAIT, "sleep", "sleep", "1000")

    lab.down()

    assert os.waitpid(process, 0)[1] == signal.SIGKILL
    assert traces(lab.name) == nothing()
    assert locks() <= held
    assert not lab.folder.exists()


def test_lab_whose_processes_were_all_killed_goes_on_and_goes_away(boot: Boot) -> None:
    """A crash must cost nothing but a restart, and never a leftover."""
    lab = boot("crashed", 1)
    lab.node("node1").ssh("echo kept > /etc/kept")
    _kill_all(lab)

    lab.up(1)

    assert lab.node("node1").ssh("cat /etc/kept; apt-get update > /dev/null") == "kept\n"
    _kill_all(lab)
    assert lab.node("node1").state() == "off"
    lab.down()
    assert traces(lab.name) == nothing()


def test_lab_of_which_only_remains_are_left_is_made_anew(boot: Boot) -> None:
    """After a crash of the machine itself the disks cannot be trusted."""
    lab = boot("torn", 1)
    lab.node("node1").ssh("echo lost > /etc/lost")
    (lab.folder / "ready").write_text("another boot\n", encoding="ascii")

    lab.up(1)

    assert "etc/lost" not in lab.node("node1").disk.changes()
    lab.down()


def _born(processes: set[int]) -> set[tuple[int, float]]:
    """Each with the time of its start: on a busy machine a number is soon another one's."""
    born = set()
    for pid in processes:
        with suppress(psutil.NoSuchProcess):
            born.add((pid, psutil.Process(pid).create_time()))
    return born


def _keepers(node: Node) -> set[int]:
    """The processes of the host that are no part of the guest: they outlast a reboot."""
    keepers = set()
    for pid in node.group.processes():
        with suppress(psutil.NoSuchProcess):
            if psutil.Process(pid).name() in {"sh", "systemd-nspawn", "unshare"}:
                keepers.add(pid)
    return keepers


def _kill_all(lab: Lab) -> None:
    """Every process of its hosts and in its namespaces."""
    while processes := HostGroup(lab.name, "node1").processes() | lab.namespace_processes():
        for pid in processes:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
