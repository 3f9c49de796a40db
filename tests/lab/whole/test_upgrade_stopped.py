"""An upgrade that stops at a machine, and goes on there; the agent as a plain program."""

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hearth.cluster import binaries
from hearth.lab.lab import Lab
from tests.lab.layers import kv
from tests.lab.playbooks import Ran, play
from tests.lab.whole.asking import agent, asked, run_of, settle
from tests.lab.whole.test_upgrade import (
    IN_TURN,
    PROGRAM,
    another_nomad,
    checkout,
    expect_jobs_of,
    talk,
    turns_of,
    upgrade,
    versions,
)

pytestmark = [
    pytest.mark.hosts,
    pytest.mark.nomad,
    pytest.mark.extended,
    pytest.mark.timeout(1500),
]
EXTENDED_INPUTS = [
    "upgrade.yaml", "services.yaml", "ansible/playbooks/tasks/**", "ansible/roles/binary/**",
    "ansible/roles/consul/**", "ansible/roles/hearth_release/**", "ansible/roles/nomad/**",
    "ansible/roles/pipecatapp/**", "ansible/roles/preflight_checks/**", "hearth/cluster/**",
    "hearth/release/**", "nomad_jobs/pipecatapp.nomad.hcl", "pipecatapp/Dockerfile",
    "tests/lab/whole/test_upgrade.py",
]  # fmt: skip

HIGHEST = "91.0.0"
BROKEN = "#!/bin/sh\n[ $1 = version ] && cat <<'END'\n{}\nEND\n"
"""A Nomad that says its version, and does nothing else."""
LOOK = """
kind: workflow
id: look
steps: [{id: seen, use: cluster.status}]
outputs: {unknown: "{{ seen.unknown }}", machines: "{{ seen.machines | map(attribute='name') }}"}
"""
PROGRAMS = "ps -eo user:32=,args= | grep -- '-m [p]ipecatapp'"
PLAIN = "/opt/hearth/current/venv/bin/python -P -m pipecatapp"


@dataclass(frozen=True)
class Upgraded:
    """What there was before, the run that stopped at a machine, and the one that went on there."""

    before: str
    turns: list[dict[str, Any]]
    program: str
    stopped: Ran
    meanwhile: dict[str, str]
    resumed: Ran
    answers: list[str]


@pytest.fixture(scope="module")
def upgraded(cluster: Lab, tmp_path_factory: pytest.TempPathFactory) -> Upgraded:
    """The cluster with a newer release, and somebody who asked all the time.

    Nomad is another file, which does not start on the second machine at first. The agent becomes a
    plain program.
    """
    newer = checkout(tmp_path_factory.mktemp("highest") / "checkout", HIGHEST)
    first, folder = cluster.node("node1"), tmp_path_factory.mktemp("programs")
    (before,) = set(versions(cluster).values())
    turns = talk(cluster, "Say hello.")
    first.ssh(kv("put tests/before-the-upgrade yes"))
    program = first.ssh(PROGRAM)
    variables: dict[str, object] = {
        "nomad_binary": str(another_nomad(folder, HIGHEST)), "pipecatapp_driver": "raw_exec",
    }  # fmt: skip
    ill = {"nomad_binary": str(_broken_nomad(folder)), "nomad_health_retries": 20}

    with asked(cluster, first) as answers:
        stopped = upgrade(cluster, newer, check=False, variables=variables, of_hosts={"node2": ill})
        meanwhile = versions(cluster)
        resumed = upgrade(cluster, newer, variables=variables)
    settle(cluster)
    return Upgraded(before, turns, program, stopped, meanwhile, resumed, answers)


def test_upgrade_that_stopped_at_a_machine_says_why_and_goes_on_there(
    cluster: Lab, upgraded: Upgraded
) -> None:
    """The second machine does not come back: the third is not touched until it does."""
    new = upgraded.meanwhile["node1"]

    assert upgraded.stopped.returncode != 0
    assert "node2: Nomad is not one of the healthy servers again" in upgraded.stopped.output
    assert "Read `journalctl -u nomad -n 50` there" in upgraded.stopped.output
    assert new.startswith(HIGHEST)
    assert upgraded.meanwhile == {"node1": new, "node2": upgraded.before, "node3": upgraded.before}
    assert versions(cluster) == dict.fromkeys(upgraded.meanwhile, new)
    turns = upgraded.resumed.output.split(IN_TURN)[1:]
    assert [f"changed: [node{n}]" in turn for n, turn in enumerate(turns, 1)] == [
        False, True, True,
    ]  # fmt: skip
    assert "hearth_release : Unpack" not in upgraded.resumed.output


def test_nothing_is_lost_where_an_upgrade_stopped(cluster: Lab, upgraded: Upgraded) -> None:
    """Questions under way, what was kept in Consul, and what was said to the agent; in the end
    every machine and every job has the newer release."""
    first = cluster.node("node1")

    assert len(upgraded.answers) > 3
    assert first.ssh(kv("get tests/before-the-upgrade")).strip() == "yes"
    assert turns_of(cluster) == upgraded.turns
    assert all(node.ssh(PROGRAM) != upgraded.program for node in cluster.nodes())
    expect_jobs_of(cluster, upgraded.meanwhile["node1"])


def test_agent_is_a_plain_program_and_an_image_again(cluster: Lab, upgraded: Upgraded) -> None:
    """`pipecatapp_driver: raw_exec`: it answers, knows and sees the same; nothing of it stays."""
    first = cluster.node("node1")
    plain, seen, said = first.ssh(PROGRAMS), _look(cluster), talk(cluster, "Once more.")

    play(cluster, "--tags", "pipecatapp")  # the image of the release before is still there
    settle(cluster)

    assert plain.split()[0] == "hearth"
    assert PLAIN in plain
    assert PLAIN not in first.ssh(PROGRAMS)
    assert len(first.ssh("docker ps --quiet").split()) == 1
    assert first.ssh("find /var/lib/hearth/state ! -user hearth") == ""
    names = [node.name for node in cluster.nodes()]
    assert seen == _look(cluster) == {"unknown": [], "machines": names}
    assert said[: len(upgraded.turns)] == upgraded.turns
    assert talk(cluster, "And again.")[: len(said)] == said


def _look(lab: Lab) -> dict[str, Any]:
    """What the agent finds out with the tools that need most: the cluster, and a program."""
    with agent(lab, lab.node("node1")) as client:
        outputs: dict[str, Any] = run_of(client, LOOK)["outputs"]
    return outputs


def _broken_nomad(folder: Path) -> Path:
    found = binaries.find("nomad")
    assert found
    version = subprocess.run([found, "version"], capture_output=True, check=True, text=True).stdout
    program = folder / "broken"
    program.write_text(BROKEN.format(version))
    program.chmod(0o755)
    return program
