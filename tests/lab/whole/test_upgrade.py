"""A newer release on a running cluster."""

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import copy2
from typing import Any

import httpx2
import pytest

from hearth.cluster import binaries
from hearth.cluster.jobs.state import state_of
from hearth.lab.lab import Lab
from hearth.lab.node import Node
from hearth.service.version import hearth_version
from tests.lab.layers import kv
from tests.lab.playbooks import ROOT, Ran, play
from tests.lab.whole.asking import (
    agent,
    agents,
    answer,
    gateway,
    left_over,
    patiently,
    run_of,
    settle,
)

pytestmark = [pytest.mark.hosts, pytest.mark.nomad, pytest.mark.timeout(1500)]

HIGHER = "90.0.0"
VERSION = "basename $(readlink /opt/hearth/current)"
PROGRAM = "sha256sum $(readlink -f /usr/local/bin/nomad)"
READ_ONLY = "mount --bind /opt /opt && mount -o remount,bind,ro /opt"
BROKEN = "#!/bin/sh\n[ $1 = version ] && cat <<'END'\n{}\nEND\n"
"""A Nomad that says its version, and does nothing else."""
OF_A_RELEASE = ("llama-expert-general", "moe-gateway", "pipecatapp", "speech-stt", "speech-tts")
LOOK = """
kind: workflow
id: look
steps: [{id: seen, use: cluster.status}]
outputs: {unknown: "{{ seen.unknown }}", machines: "{{ seen.machines | map(attribute='name') }}"}
"""
PROGRAMS = "ps -eo user:32=,args= | grep -- '-m [p]ipecatapp'"
PLAIN = "/opt/hearth/current/venv/bin/python -P -m pipecatapp"


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
        ran = _upgrade(cluster, newer, check=False)
    finally:
        node.ssh("umount /opt")

    assert ran.returncode != 0
    assert "node3 cannot be part of the cluster yet" in ran.output
    assert "mount -o remount,rw /opt" in ran.output
    assert set(ran.changed.values()) == {0}, ran.changes
    assert _versions(cluster) == before


@dataclass(frozen=True)
class Upgraded:
    """What there was before, the run that stopped at a machine, and the one that went on there."""

    before: str
    said: list[dict[str, Any]]
    program: str
    stopped: Ran
    meanwhile: dict[str, str]
    resumed: Ran
    answers: list[str]


@pytest.fixture(scope="module")
def upgraded(cluster: Lab, newer: Path, tmp_path_factory: pytest.TempPathFactory) -> Upgraded:
    """The cluster with the newer release, and somebody who asked all the time.

    Nomad is another file, which does not start on the second machine at first. The agent becomes a
    plain program.
    """
    first, folder = cluster.node("node1"), tmp_path_factory.mktemp("programs")
    (before,) = set(_versions(cluster).values())
    said = _talk(cluster, "Say hello.")
    first.ssh(kv("put tests/before-the-upgrade yes"))
    program = first.ssh(PROGRAM)
    variables: dict[str, object] = {
        "nomad_binary": str(_another_nomad(folder)), "pipecatapp_driver": "raw_exec",
    }  # fmt: skip
    ill = {"nomad_binary": str(_broken_nomad(folder)), "nomad_health_retries": 20}

    with asked(cluster, first) as answers:
        stopped = _upgrade(
            cluster, newer, check=False, variables=variables, of_hosts={"node2": ill}
        )
        meanwhile = _versions(cluster)
        resumed = _upgrade(cluster, newer, variables=variables)
    settle(cluster)
    return Upgraded(before, said, program, stopped, meanwhile, resumed, answers)


def test_upgrade_that_stopped_at_a_machine_says_why_and_goes_on_there(
    cluster: Lab, upgraded: Upgraded
) -> None:
    """The second machine does not come back: the third is not touched until it does."""
    new = upgraded.meanwhile["node1"]

    assert upgraded.stopped.returncode != 0
    assert "node2: Nomad is not one of the healthy servers again" in upgraded.stopped.output
    assert "`journalctl -u nomad -n 50` there says why" in upgraded.stopped.output
    assert new.startswith(HIGHER)
    assert upgraded.meanwhile == {"node1": new, "node2": upgraded.before, "node3": upgraded.before}
    assert _versions(cluster) == dict.fromkeys(upgraded.meanwhile, new)
    turns = upgraded.resumed.output.split("PLAY [One machine after the other]")[1:]
    assert [f"changed: [node{n}]" in turn for n, turn in enumerate(turns, 1)] == [
        False, True, True,
    ]  # fmt: skip


def test_release_is_on_all_machines_before_the_first_one_changes(upgraded: Upgraded) -> None:
    """What takes long is done while nobody waits for it, and what fails there harms nobody."""
    brought, _, in_turn = upgraded.stopped.output.partition("PLAY [One machine after the other]")

    for node in upgraded.meanwhile:
        assert f"changed: [{node}]" in brought.rpartition("TASK [hearth_release : Say that")[2]
    assert "hearth_release : Unpack" not in in_turn
    assert "hearth_release : Unpack" not in upgraded.resumed.output


def test_newer_release_is_what_runs_and_the_one_before_stays(
    cluster: Lab, upgraded: Upgraded
) -> None:
    """Every machine and every job; with the one before it is possible to go back."""
    version = upgraded.meanwhile["node1"]

    for node in cluster.nodes():
        assert set(node.ssh("ls /opt/hearth/versions").split()) == {upgraded.before, version}
        assert node.ssh(PROGRAM) != upgraded.program
    with agents(cluster, cluster.node("node1")) as (consul, nomad):
        jobs = {name: state_of(nomad, name) for name in OF_A_RELEASE}
        stale = left_over(consul, nomad)
        entries = [one for name in OF_A_RELEASE for one in consul.instances(name, passing=True)]
    found = [one for one in entries if f"{one.node}:{one.id}" not in stale]
    told = {name: state.job["Meta"]["hearth_version"] for name, state in jobs.items()}
    assert all(version in text for text in told.values()), told
    assert [len(state.running) for state in jobs.values()] == [1] * len(jobs)
    assert sorted(one.service for one in found) == sorted(OF_A_RELEASE)
    assert all(one.meta["hearth_version"].startswith(HIGHER) for one in found), found


def test_nothing_is_lost_by_an_upgrade(cluster: Lab, upgraded: Upgraded) -> None:
    """Questions under way, what was kept in Consul, and what was said to the agent."""
    first = cluster.node("node1")

    assert len(upgraded.answers) > 3
    assert first.ssh(kv("get tests/before-the-upgrade")).strip() == "yes"
    assert _turns(cluster) == upgraded.said


def test_agent_is_a_plain_program_and_an_image_again(cluster: Lab, upgraded: Upgraded) -> None:
    """`pipecatapp_driver: raw_exec`: it answers, knows and sees the same; nothing of it stays."""
    first = cluster.node("node1")
    plain, seen, said = first.ssh(PROGRAMS), _look(cluster), _talk(cluster, "Once more.")

    play(cluster, "--tags", "pipecatapp")  # the image of the release before is still there
    settle(cluster)

    assert plain.split()[0] == "hearth"
    assert PLAIN in plain
    assert PLAIN not in first.ssh(PROGRAMS)
    assert len(first.ssh("docker ps --quiet").split()) == 1
    assert first.ssh("find /var/lib/hearth/state ! -user hearth") == ""
    names = [node.name for node in cluster.nodes()]
    assert seen == _look(cluster) == {"unknown": [], "machines": names}
    assert said[: len(upgraded.said)] == upgraded.said
    assert _talk(cluster, "And again.")[: len(said)] == said


@contextmanager
def asked(lab: Lab, node: Node) -> Iterator[list[str]]:
    """Somebody who asks one question after the other; the answers so far.

    Who is not let in, or is told to ask again, does. Fails where a question that was taken stayed
    without an answer.
    """
    answers: list[str] = []
    failures: list[Exception | AssertionError] = []
    enough = threading.Event()

    def ask() -> None:
        while not enough.wait(1):
            try:
                answers.append(patiently(lambda: _answer(lab, node)))
            except (AssertionError, httpx2.HTTPError, OSError) as error:
                failures.append(error)
                return

    person = threading.Thread(target=ask)
    person.start()
    try:
        yield answers
    finally:
        enough.set()
        person.join()
    assert failures == []


def _answer(lab: Lab, node: Node) -> str:
    with gateway(lab, node) as client:
        try:
            return answer(client)
        except httpx2.ConnectError:
            raise
        except httpx2.HTTPStatusError as error:
            if "retry-after" in error.response.headers:
                raise
            raise AssertionError(f"lost: {error.response.text}") from error
        except httpx2.HTTPError as error:
            raise AssertionError(f"lost: {error!r}") from error


def _talk(lab: Lab, words: str) -> list[dict[str, Any]]:
    """Say something to the agent; what was said so far."""
    body = {
        "model": "agent", "conversation": "before-the-upgrade", "max_tokens": 8,
        "messages": [{"role": "user", "content": words}],
    }  # fmt: skip

    def ask() -> None:
        with agent(lab, lab.node("node1")) as client:
            client.post("/v1/chat/completions", json=body).raise_for_status()

    patiently(ask)
    return _turns(lab)


def _turns(lab: Lab) -> list[dict[str, Any]]:
    """What was said to the agent, and its runs of that."""

    def ask() -> list[dict[str, Any]]:
        with agent(lab, lab.node("node1")) as client:
            told = client.get("/api/conversations/before-the-upgrade").raise_for_status().json()
            return list(told["turns"])

    return patiently(ask)


def _look(lab: Lab) -> dict[str, Any]:
    """What the agent finds out with the tools that need most: the cluster, and a program."""
    with agent(lab, lab.node("node1")) as client:
        outputs: dict[str, Any] = run_of(client, LOOK)["outputs"]
    return outputs


def _upgrade(lab: Lab, root: Path, **more: Any) -> Ran:
    return play(lab, playbook="upgrade.yaml", root=root, **more)


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


def _another_nomad(folder: Path) -> Path:
    """The same program, so that jobs go on with it; another file, so that it has to be brought."""
    found = binaries.find("nomad")
    assert found
    program = folder / "nomad"
    program.write_bytes(found.read_bytes() + b"\n")
    program.chmod(0o755)
    return program


def _broken_nomad(folder: Path) -> Path:
    found = binaries.find("nomad")
    assert found
    version = subprocess.run([found, "version"], capture_output=True, check=True, text=True).stdout
    program = folder / "broken"
    program.write_text(BROKEN.format(version))
    program.chmod(0o755)
    return program
