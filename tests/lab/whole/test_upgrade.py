"""A newer release on a running cluster."""

import subprocess
from pathlib import Path
from shutil import copy2

import pytest

from hearth.lab.lab import Lab
from hearth.service.version import hearth_version
from tests.lab.playbooks import ROOT, play

pytestmark = [pytest.mark.hosts, pytest.mark.nomad, pytest.mark.timeout(1500)]

HIGHER = "90.0.0"
VERSION = "basename $(readlink /opt/hearth/current)"
READ_ONLY = "mount --bind /opt /opt && mount -o remount,bind,ro /opt"


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This checkout one release later: of it, the one that the cluster runs is the one before.

    Its number is higher. An older commit is not to be had where only the newest was fetched.
    """
    root = tmp_path_factory.mktemp("newer") / "checkout"
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT, capture_output=True, check=True, text=True,
    ).stdout  # fmt: skip
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file() and not (ROOT / name).is_symlink():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            copy2(ROOT / name, root / name)
    _cache(root)
    _number(root)
    return root


def test_upgrade_stops_before_any_change_where_a_machine_cannot_take_it(
    cluster: Lab, newer: Path
) -> None:
    """Half of a cluster on another release is worse than one that was not upgraded."""
    node = cluster.node("node3")
    before = _versions(cluster)
    node.ssh(READ_ONLY)
    try:
        ran = play(cluster, playbook="upgrade.yaml", root=newer, check=False)
    finally:
        node.ssh("umount /opt")

    assert ran.returncode != 0
    assert "node3 cannot be part of the cluster yet" in ran.output
    assert "mount -o remount,rw /opt" in ran.output
    assert set(ran.changed.values()) == {0}, ran.changes
    assert _versions(cluster) == before


def _versions(lab: Lab) -> dict[str, str]:
    """The release that each machine uses."""
    return {node.name: node.ssh(VERSION).strip() for node in lab.nodes()}


def _cache(root: Path) -> None:
    """What the controller keeps; but for the archives of our own code, which it has of its own."""
    (root / ".venv").symlink_to(ROOT / ".venv")
    (root / ".cache" / "releases").mkdir(parents=True)
    for made in (ROOT / ".cache").iterdir():
        if made.name != "releases":
            (root / ".cache" / made.name).symlink_to(made)
    for packages in (ROOT / ".cache" / "releases").glob("packages-*.tar.gz"):
        (root / ".cache" / "releases" / packages.name).symlink_to(packages)


def _number(root: Path) -> None:
    """Have Python find a higher number than that of the distribution that is installed here."""
    project = root / "pyproject.toml"
    older = project.read_text(encoding="utf-8")
    project.write_text(older.replace(f'version = "{hearth_version()}"', f'version = "{HIGHER}"'))
    told = root / f"hearth-{HIGHER}.dist-info" / "METADATA"
    told.parent.mkdir()
    told.write_text(f"Metadata-Version: 2.1\nName: hearth\nVersion: {HIGHER}\n")
