"""What may be named how, where hosts lie, and what a disk is made of: no root needed."""

import os
import stat
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hearth.lab import systems
from hearth.lab.cli import lab_app
from hearth.lab.disk import Disk
from hearth.lab.errors import (
    InvalidName,
    NoEmulator,
    NoMirror,
    SnapshotInUse,
    SnapshotMissing,
    SystemUnknown,
)
from hearth.lab.folders import Folders, checked_name
from hearth.lab.host_group import HostGroup
from hearth.lab.network import address_of, checked_address
from hearth.lab.snapshots import COMPLETE, Snapshots


@pytest.mark.parametrize("name", ["lab", "tests-4711-bare", "n2", "node1"])
def test_name_that_fits_is_taken(name: str) -> None:
    """Tests, users and jobs name labs as they like."""
    assert checked_name(name) == name


@pytest.mark.parametrize(
    "name", ["", "Lab", "a b", "../x", "-a", "a--b", "a_b", "x" * 41, "lab-node1", "a/b"]
)
def test_name_that_could_be_mistaken_is_refused(name: str) -> None:
    """A name becomes a folder and a namespace, and `lab-node1` is the host of another lab."""
    with pytest.raises(InvalidName):
        checked_name(name)


def test_hosts_lie_at_the_addresses_of_the_inventory() -> None:
    """`inventory/lab.yaml` counts on them."""
    assert [str(address_of(number)) for number in (1, 2, 3)] == [
        "10.231.7.11", "10.231.7.12", "10.231.7.13",
    ]  # fmt: skip
    assert HostGroup("home", "node2").unit == "hearth-home-node2"


@pytest.mark.parametrize("text", ["10.231.7.1", "10.231.7.0", "10.231.7.255", "10.0.0.1", "x"])
def test_address_outside_of_the_lab_is_refused(text: str) -> None:
    """The host would be gone, and nobody would know why."""
    with pytest.raises(InvalidName):
        checked_address(text)


def test_address_inside_of_the_lab_is_taken() -> None:
    """Every address but the bridge's own is a host's."""
    assert checked_address("10.231.7.254") == IPv4Address("10.231.7.254")


def test_base_tree_is_named_by_what_it_is_made_of() -> None:
    """A changed recipe must not go on with yesterday's disk."""
    system = systems.named("debian-12")
    recipe = systems.recipe(system, {"bookworm": "http://mirror.lan/debian"})

    assert "python3-apt" in recipe
    assert "writable-cgroups.service" in recipe
    assert "mirror.lan" in recipe
    assert recipe != systems.recipe(
        systems.named("debian-13"), {"bookworm": "http://mirror.lan/debian"}
    )


TARGETS = """Debian bookworm http://mirror.lan/debian/
Debian bookworm-security http://mirror.lan/debian-security/
Docker bookworm http://docker.lan/linux/debian/
"""


@pytest.mark.parametrize(("name", "suite"), [("debian-12", "bookworm"), ("debian-13", "trixie")])
def test_hosts_are_made_from_the_mirror_of_this_machine(name: str, suite: str) -> None:
    """A home with a mirror of its own has it set up in apt, and perhaps no other way out."""
    assert systems.mirrors(systems.named(name), TARGETS) == {
        suite: "http://mirror.lan/debian",
        f"{suite}-security": "http://mirror.lan/debian-security",
    }


def test_suite_that_apt_knows_keeps_its_own_mirror() -> None:
    """A mirror may hold one release only."""
    more = f"{TARGETS}Debian trixie http://elsewhere/debian/\n"

    found = systems.mirrors(systems.named("debian-13"), more)

    assert found["trixie"] == "http://elsewhere/debian"
    assert (
        systems.mirrors(systems.named("debian-12"), more)["bookworm"] == "http://mirror.lan/debian"
    )


def test_system_of_another_architecture_needs_an_emulator(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without one, the message names the package, before anything is made."""
    system = systems.named("debian-12-arm64")
    monkeypatch.setattr(systems, "_targets", lambda: TARGETS)
    monkeypatch.setattr(systems, "_own_architecture", lambda: "amd64")
    monkeypatch.setattr(systems, "EMULATORS", {"arm64": tmp_path / "none"})
    with pytest.raises(NoEmulator, match="apt-get install qemu-user-static"):
        systems.make(tmp_path / "bases", system, keep=[], report=print)

    assert not (tmp_path / "bases").exists()
    assert systems.title_of(systems.tree_in(tmp_path, system)) == "Debian 12 for arm64"


def test_mirror_of_another_project_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian's mirrors have no packages of Ubuntu, and the reverse."""
    assert systems.mirrors(systems.named("ubuntu-24.04"), TARGETS) == {}
    monkeypatch.setattr(systems, "_targets", lambda: "Ubuntu noble http://mirror.lan/ubuntu")
    monkeypatch.delenv("HEARTH_LAB_MIRROR", raising=False)
    with pytest.raises(NoMirror, match="no source of Debian, which hosts with Debian 13 need"):
        systems.mirrors_used(systems.named("debian-13"))


def test_ubuntu_mirror_is_set_for_all_its_archives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Security updates come from the same mirror."""
    monkeypatch.setenv("HEARTH_LAB_UBUNTU_MIRROR", "http://mirror.lan/ubuntu/")

    assert systems.mirrors_used(systems.named("ubuntu-24.04")) == dict.fromkeys(
        ("noble", "noble-updates", "noble-security"), "http://mirror.lan/ubuntu"
    )


def test_unknown_system_is_refused_with_those_that_exist() -> None:
    """A typing error must not make a host of another system."""
    with pytest.raises(SystemUnknown, match="no system 'debian-14': choose one of debian-12, "):
        systems.named("debian-14")


def test_disk_shares_the_files_of_images_with_its_layer_and_no_others(tmp_path: Path) -> None:
    """Docker notes again that a layer is complete: the snapshot may not change by that."""
    golden, disk = Disk(tmp_path / "golden"), Disk(tmp_path / "node1")
    golden.make([])
    image = Path("overlay2", "image")
    (golden.docker / image / "diff").mkdir(parents=True)
    for name in ("diff/program", "committed"):
        (golden.docker / image / name).write_text("golden", encoding="ascii")

    disk.make_from(golden)
    (disk.docker / image / "committed").write_text("again", encoding="ascii")

    assert (golden.docker / image / "committed").read_text(encoding="ascii") == "golden"
    assert (golden.docker / image / "diff/program").samefile(disk.docker / image / "diff/program")


def test_file_is_found_in_the_topmost_layer_that_has_it(tmp_path: Path) -> None:
    """The host itself sees its disk so."""
    base, golden = tmp_path / "base", tmp_path / "golden"
    for folder, text in ((base, "old"), (golden, "new")):
        (folder / "etc").mkdir(parents=True)
        (folder / "etc/issue").write_text(text, encoding="ascii")
    (base / "etc/only").touch()
    disk = Disk(tmp_path / "node1")
    disk.make([golden, base])

    assert disk.find("etc/issue") == golden / "etc/issue"
    assert disk.find("etc/only") == base / "etc/only"
    assert disk.find("etc/nowhere") is None
    disk.write("etc/issue", "mine")
    assert disk.find("etc/issue") == disk.upper / "etc/issue"
    assert disk.changes() == {"etc/issue"}


def test_new_folders_on_a_disk_have_the_mode_of_the_base(tmp_path: Path) -> None:
    """A folder above hides the mode of the one below: /etc must stay readable, /root must not."""
    disk = Disk(tmp_path / "node1")
    disk.make([tmp_path])
    before = os.umask(0o077)
    try:
        disk.write("etc/ssh/key", "x", mode=0o600)
        disk.write("root/.ssh/authorized_keys", "x", mode=0o600, folder=0o700)
    finally:
        os.umask(before)

    modes = {
        path: stat.S_IMODE((disk.upper / path).stat().st_mode)
        for path in ("etc", "etc/ssh", "etc/ssh/key", "root", "root/.ssh")
    }
    assert modes == {
        "etc": 0o755, "etc/ssh": 0o755, "etc/ssh/key": 0o600, "root": 0o700, "root/.ssh": 0o700,
    }  # fmt: skip


def test_layer_that_was_not_completed_does_not_count(tmp_path: Path) -> None:
    """A crash in mid-save must not be begun with."""
    layers = Snapshots(Folders(tmp_path))
    Disk(tmp_path / "layers/half/node1").make([tmp_path / "base/tree"])

    assert layers.names() == []
    with pytest.raises(SnapshotMissing):
        layers.disk("half", "node1")
    (tmp_path / "layers/half" / COMPLETE).touch()
    assert layers.names() == ["half"]
    assert layers.disk("half", "node2") is None


def test_layer_and_base_tree_are_kept_while_something_is_built_on_them(tmp_path: Path) -> None:
    """A disk without its lower half is no disk."""
    base = tmp_path / "base/tree"
    golden, copy = Disk(tmp_path / "layers/gold/node1"), Disk(tmp_path / "labs/x/nodes/node1")
    golden.make([base])
    (tmp_path / "layers/gold" / COMPLETE).touch()
    copy.make([golden.upper, base])
    layers = Snapshots(Folders(tmp_path))

    assert layers.foundations() == {base}
    with pytest.raises(SnapshotInUse):
        layers.drop("gold")
    (copy.folder / "lower.json").unlink()
    layers.drop("gold")
    assert layers.names() == []


@pytest.mark.parametrize(("old", "new"), [("cut", "partition"), ("heal", "reconnect")])
def test_old_name_of_a_command_works_and_is_not_listed(old: str, new: str) -> None:
    """Scripts that were written for 0.1 continue to work."""
    helps = [CliRunner().invoke(lab_app, words).stdout for words in ([old, "--help"], ["--help"])]

    assert "host" in helps[0]
    assert new in helps[1]
    assert f" {old} " not in helps[1]
