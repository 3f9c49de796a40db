"""Ten machines, of two architectures and many sizes: what the roles choose for each."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.ansible import tree

pytestmark = pytest.mark.extended
EXTENDED_INPUTS = [
    "ansible/roles/**", "group_vars/**", "hearth/models/**", "tests/ansible/fleet.yaml",
]  # fmt: skip
BIN = Path(sys.executable).parent
PLAY = Path(__file__).with_name("fleet.yaml")
SMALL, LARGE = 3_000, 64_000
MACHINES: dict[str, dict[str, Any]] = {
    f"machine{number}": {
        "ansible_host": f"192.0.2.{number}",
        "power_class": "sleeps" if number in {1, 4} else "always_on",
        "machine": {
            "architecture": "aarch64" if number in {2, 5, 6, 10} else "x86_64",
            "memory_mb": SMALL if number in {2, 3, 10} else LARGE,
        },
    }
    for number in range(1, 11)
}


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """What was chosen, as one file for each machine, and what Ansible said."""
    folder = tmp_path_factory.mktemp("fleet")
    (folder / "chosen").mkdir()
    variables = {
        "ansible_python_interpreter": sys.executable,
        "chosen": str(folder / "chosen"),
        "hearth_root": str(folder / "root"),
        "llama_cpp_cache": str(folder / "builds"),
    }
    inventory = folder / "ten.json"
    inventory.write_text(json.dumps({"cluster": {"hosts": MACHINES, "vars": variables}}))
    # Beside it, Ansible finds what holds for every machine.
    shutil.copy(PLAY, folder)
    (folder / "group_vars").symlink_to(tree.ROOT / "group_vars")
    ended = subprocess.run(
        [BIN / "ansible-playbook", "--check", "-i", inventory, folder / PLAY.name],
        cwd=tree.ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "ANSIBLE_CONFIG": str(tree.ROOT / "ansible.cfg"), "NO_COLOR": "1",
             "ANSIBLE_STDOUT_CALLBACK": "default"},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout[-6000:] + ended.stderr[-2000:]
    return folder / "chosen", ended.stdout


@pytest.fixture(scope="module")
def chosen(output: tuple[Path, str]) -> dict[str, dict[str, Any]]:
    return {name: json.loads((output[0] / f"{name}.json").read_text()) for name in MACHINES}


def test_each_machine_gets_the_program_of_its_architecture(chosen: dict[str, Any]) -> None:
    """A program of the other kind does not even start."""
    pinned = tree.load(tree.ROOT / "group_vars/all/artifacts.yaml")["artifacts"]["nomad"][
        "archives"
    ]
    arches = {"x86_64": "amd64", "aarch64": "arm64"}

    for name, machine in MACHINES.items():
        assert chosen[name]["archive"] == pinned[arches[machine["machine"]["architecture"]]]


def test_one_machine_of_each_architecture_compiles_for_the_others(
    chosen: dict[str, Any], output: tuple[Path, str]
) -> None:
    """Ten hours of compiling are one; and a result never reaches a machine that cannot run it."""
    task = output[1].partition("Report the build that check mode skips")[2].partition("TASK [")[0]

    assert sorted(re.findall(r"changed: \[(\w+)", task)) == ["machine1", "machine2"]
    builds = {
        (machine["machine"]["architecture"], chosen[name]["build"])
        for name, machine in MACHINES.items()
    }
    assert len(builds) == 2
    assert all(f"-{arch}-" in build for arch, build in builds)


def test_three_machines_that_never_sleep_are_servers(chosen: dict[str, Any]) -> None:
    """A quorum of ten is slower than one of three, and one that sleeps is none."""
    servers = [name for name in MACHINES if chosen[name]["server"]]

    assert servers == ["machine2", "machine3", "machine5"]


def test_small_machine_fetches_only_what_it_can_hold(chosen: dict[str, Any]) -> None:
    """A model that never fits would be gigabytes for nothing."""
    catalogue = tree.load(tree.ROOT / "group_vars/all/models.yaml")["models"]

    for name, machine in MACHINES.items():
        room = machine["machine"]["memory_mb"] * 2**20
        models = chosen[name]["models"]
        assert "smollm2" in models
        assert all(catalogue[model]["ram_bytes"] <= room for model in models)
    assert len(chosen["machine1"]["models"]) > len(chosen["machine3"]["models"])
