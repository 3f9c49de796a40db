"""A newer release on a running cluster."""

import subprocess
from dataclasses import dataclass
from pathlib import Path
from shutil import copy2
from typing import Any

import pytest

from hearth.cluster import binaries
from hearth.cluster.jobs.state import state_of
from hearth.lab.lab import Lab
from hearth.service.version import hearth_version
from tests.lab.layers import kv
from tests.lab.playbooks import ROOT, Ran, play
from tests.lab.whole.asking import agent, agents, asked, left_over, patiently, settle

pytestmark = [pytest.mark.hosts, pytest.mark.nomad, pytest.mark.timeout(1500)]

HIGHER = "90.0.0"
VERSION = "basename $(readlink /opt/hearth/current)"
PROGRAM = "sha256sum $(readlink -f /usr/local/bin/nomad)"
READ_ONLY = "mount --bind /opt /opt && mount -o remount,bind,ro /opt"
BROUGHT = "TASK [hearth_release : Mark the"
IN_TURN = "PLAY [Upgrade one machine at a time]"
OF_A_RELEASE = ("llama-expert-general", "moe-gateway", "pipecatapp", "speech-stt", "speech-tts")


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This checkout one release later: of it, the one that the cluster runs is the one before."""
    return checkout(tmp_path_factory.mktemp("newer") / "checkout", HIGHER)


def test_upgrade_stops_before_any_change_where_a_machine_cannot_take_it(
    cluster: Lab, newer: Path
) -> None:
    """Half of a cluster on another release is worse than one that was not upgraded."""
    node = cluster.node("node3")
    before = versions(cluster)
    node.ssh(READ_ONLY)
    try:
        ran = upgrade(cluster, newer, check=False)
    finally:
        node.ssh("umount /opt")

    assert ran.returncode != 0
    assert "node3 cannot be part of the cluster yet" in ran.output
    assert "mount -o remount,rw /opt" in ran.output
    assert set(ran.changed.values()) == {0}, ran.changes
    assert versions(cluster) == before


@dataclass(frozen=True)
class Upgraded:
    """What there was before, and the upgrade while somebody asked."""

    before: str
    program: str
    turns: list[dict[str, Any]]
    ran: Ran
    answers: list[str]


@pytest.fixture(scope="module")
def upgraded(cluster: Lab, newer: Path, tmp_path_factory: pytest.TempPathFactory) -> Upgraded:
    """The cluster with the newer release, and a Nomad that is another file."""
    first, folder = cluster.node("node1"), tmp_path_factory.mktemp("programs")
    (before,) = set(versions(cluster).values())
    turns = talk(cluster, "Say hello.")
    first.ssh(kv("put tests/before-the-upgrade yes"))
    program = first.ssh(PROGRAM)

    with asked(cluster, first) as answers:
        ran = upgrade(
            cluster, newer, variables={"nomad_binary": str(another_nomad(folder, HIGHER))}
        )
    settle(cluster)
    return Upgraded(before, program, turns, ran, answers)


def test_release_is_on_all_machines_before_the_first_one_changes(upgraded: Upgraded) -> None:
    """What takes long is done while nobody waits for it, and what fails there harms nobody."""
    brought, *turns = upgraded.ran.output.split(IN_TURN)

    for number, turn in enumerate(turns, 1):
        assert f"changed: [node{number}]" in brought.rpartition(BROUGHT)[2]
        assert f"changed: [node{number}]" in turn
        assert "hearth_release : Unpack" not in turn
    assert len(turns) == 3


def test_newer_release_is_what_runs_and_the_one_before_stays(
    cluster: Lab, upgraded: Upgraded
) -> None:
    """Every machine and every job; with the one before it is possible to go back."""
    (version,) = set(versions(cluster).values())

    assert version.startswith(HIGHER)
    for node in cluster.nodes():
        assert set(node.ssh("ls /opt/hearth/versions").split()) == {upgraded.before, version}
        assert node.ssh(PROGRAM) != upgraded.program
    expect_jobs_of(cluster, version)


def test_nothing_is_lost_by_an_upgrade(cluster: Lab, upgraded: Upgraded) -> None:
    """Questions under way, what was kept in Consul, and what was said to the agent."""
    first = cluster.node("node1")

    assert len(upgraded.answers) > 3
    assert first.ssh(kv("get tests/before-the-upgrade")).strip() == "yes"
    assert turns_of(cluster) == upgraded.turns


def expect_jobs_of(lab: Lab, version: str) -> None:
    """Fail unless each job of a release runs once, is found once, and is of that version."""
    with agents(lab, lab.node("node1")) as (consul, nomad):
        jobs = {name: state_of(nomad, name) for name in OF_A_RELEASE}
        stale = left_over(consul, nomad)
        entries = [one for name in OF_A_RELEASE for one in consul.instances(name, passing=True)]
    found = [one for one in entries if f"{one.node}:{one.id}" not in stale]
    told = {name: state.job["Meta"]["hearth_version"] for name, state in jobs.items()}
    assert all(version in text for text in told.values()), told
    assert [len(state.running) for state in jobs.values()] == [1] * len(jobs)
    assert sorted(one.service for one in found) == sorted(OF_A_RELEASE)
    number = version.partition("-")[0]
    assert all(one.meta["hearth_version"].startswith(number) for one in found), found


def talk(lab: Lab, words: str) -> list[dict[str, Any]]:
    """Say something to the agent; what was said so far."""
    body = {
        "model": "agent", "conversation": "before-the-upgrade", "max_tokens": 8,
        "messages": [{"role": "user", "content": words}],
    }  # fmt: skip

    def ask() -> None:
        with agent(lab, lab.node("node1")) as client:
            client.post("/v1/chat/completions", json=body).raise_for_status()

    patiently(ask)
    return turns_of(lab)


def turns_of(lab: Lab) -> list[dict[str, Any]]:
    """What was said to the agent, and its runs of that."""

    def ask() -> list[dict[str, Any]]:
        with agent(lab, lab.node("node1")) as client:
            told = client.get("/api/conversations/before-the-upgrade").raise_for_status().json()
            return list(told["turns"])

    return patiently(ask)


def checkout(root: Path, number: str) -> Path:
    """Copy this checkout, and give the copy a higher number.

    An older commit is not to be had where only the newest was fetched.
    """
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT, capture_output=True, check=True, text=True,
    ).stdout  # fmt: skip
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file() and not (ROOT / name).is_symlink():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            copy2(ROOT / name, root / name)
    _cache(root)
    _number(root, number)
    return root


def upgrade(lab: Lab, root: Path, **more: Any) -> Ran:
    """Run the playbook of that checkout."""
    return play(lab, playbook="upgrade.yaml", root=root, **more)


def versions(lab: Lab) -> dict[str, str]:
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


def _number(root: Path, number: str) -> None:
    """Have Python find a higher number than that of the distribution that is installed here."""
    project = root / "pyproject.toml"
    older = project.read_text(encoding="utf-8")
    project.write_text(older.replace(f'version = "{hearth_version()}"', f'version = "{number}"'))
    told = root / f"hearth-{number}.dist-info" / "METADATA"
    told.parent.mkdir()
    told.write_text(f"Metadata-Version: 2.1\nName: hearth\nVersion: {number}\n")


def another_nomad(folder: Path, number: str) -> Path:
    """The same program, so that jobs go on with it; another file, so that it has to be brought."""
    found = binaries.find("nomad")
    assert found
    program = folder / "nomad"
    program.write_bytes(found.read_bytes() + number.encode())
    program.chmod(0o755)
    return program
