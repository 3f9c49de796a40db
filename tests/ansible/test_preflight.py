"""Faults that a run would meet later stop it in preflight, each with its remedy."""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.ansible import tree

EXTENDED_INPUTS = ["ansible/roles/preflight_checks/**", "ansible/plugins/**"]

BIN = Path(sys.executable).parent
PLAY = Path(__file__).with_name("preflight.yaml")
Report = dict[str, list[dict[str, str]]]


@pytest.fixture(scope="module")
def closed() -> Iterator[str]:
    """An address of this machine where nothing answers, for as long as the tests run."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}/archive.tar.gz"


@pytest.fixture(scope="module")
def held() -> Iterator[int]:
    """A port that another program listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory, closed: str, held: int) -> dict[str, Any]:
    """Name of a machine -> the variables that plant its fault."""
    folder = tmp_path_factory.mktemp("planted")
    program = folder / "program"
    program.write_text("#!/bin/sh\n")
    expert = {
        "models": {"big": {"source": {"kind": "url", "url": closed}, "file": "big.gguf",
                           "ram_bytes": 1}},
        "experts": {"general": {"models": ["big"]}},
    }  # fmt: skip
    nothing = str(folder / "nothing")
    return {
        "sound": {},
        # Faults that a run would meet one after the other.
        "machine": expert | {
            "preflight_checks_cpu_flags": ["avx2", "avx1024"],
            "preflight_checks_backend": "cuda",
            "preflight_checks_packages": {"nvidia-cuda-nowhere": "", "bash": "99.0"},
            "preflight_checks_folders": {"/var/lib": 10**18},
            "preflight_checks_ports": {str(held): "consul"},
            "preflight_checks_mesh_address": "192.0.2.1",
            "preflight_checks_clock_tolerance": -1,
        },
        "controller": {
            "llama_cpp_prebuilt": nothing, "whisper_cpp_prebuilt": nothing,
            "nomad_binary": nothing, "consul_binary": "", "artifacts": _artifacts(closed),
        },
        "builder": {"llama_cpp_prebuilt": "", "llama_cpp_url": closed,
                    "whisper_cpp_prebuilt": "", "whisper_cpp_archive": nothing},
        "damaged": {"preflight_checks_controller_sources": [
            {"feature": "archive of consul", "file": str(program), "sha256": "0" * 64,
             "remedy": "Fetch it again."}]},
    }  # fmt: skip


def _artifacts(url: str) -> dict[str, Any]:
    """The pinned programs, Consul's at another address."""
    found: dict[str, Any] = tree.load(tree.ROOT / "group_vars/all/artifacts.yaml")["artifacts"]
    for archive in found["consul"]["archives"].values():
        archive["url"] = url
    return found


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, planted: dict[str, Any]) -> tuple[Report, str]:
    """The report of all machines, and what Ansible printed."""
    folder = tmp_path_factory.mktemp("preflight")
    engine = folder / "engine"
    engine.mkdir()
    (engine / "stamp").write_text("0" * 64)
    here = {
        "ansible_host": "127.0.0.1", "ansible_python_interpreter": sys.executable,
        "hearth_root": str(folder / "root"), "hearth_data_dir": str(folder / "data"),
        "consul_binary": sys.executable, "nomad_binary": sys.executable,
        "node_exporter_binary": sys.executable, "prometheus_binary": sys.executable,
        "prometheus_promtool": sys.executable,
        "llama_cpp_prebuilt": str(engine), "whisper_cpp_prebuilt": str(engine),
        "experts_deployed": ["general"], "experts": {"general": {"models": ["smollm2"]}},
        "preflight_checks_folders": {str(folder): 1}, "preflight_checks_ports": {},
        "preflight_checks_peers": [], "preflight_checks_memory_bytes": 1,
        "preflight_checks_report": str(folder / "report.json"),
        "preflight_checks_controller_bytes": 1,
    }  # fmt: skip
    inventory = folder / "machines.json"
    machines = {"cluster": {"hosts": planted, "vars": here}}
    inventory.write_text(json.dumps(machines))
    shutil.copy(PLAY, folder)
    (folder / "group_vars").symlink_to(tree.ROOT / "group_vars")
    ended = subprocess.run(
        [BIN / "ansible-playbook", "--check", "-i", inventory, folder / PLAY.name],
        cwd=tree.ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "ANSIBLE_CONFIG": str(tree.ROOT / "ansible.cfg"), "NO_COLOR": "1",
             "ANSIBLE_STDOUT_CALLBACK": "default", "COLUMNS": "1000"},
    )  # fmt: skip
    report = folder / "report.json"
    assert report.exists(), ended.stdout[-6000:] + ended.stderr[-3000:]
    assert ended.returncode != 0
    return json.loads(report.read_text()), ended.stdout


def failures(report: Report, machine: str) -> dict[str, dict[str, str]]:
    return {check["feature"]: check for check in report[machine] if check["state"] == "fail"}


@pytest.mark.extended
@pytest.mark.parametrize(
    ("machine", "feature", "evidence", "remedy"),
    [
        ("machine", "model big.gguf", "cannot be fetched", "models_through_controller: true"),
        ("machine", "processor", "lacks avx1024", "llama_cpp_cpu_variants: true"),
        ("machine", "device /dev/nvidiactl", "missing", "Install NVIDIA's driver"),
        ("machine", "package nvidia-cuda-nowhere", "not in the package lists",
         "host_apt_components: [contrib, non-free]"),
        ("machine", "package bash", "version 5", "a newer release of the system"),
        ("machine", "disk /var/lib", "GB free", "mount a larger disk"),
        ("machine", "port HELD", "held by", "or give it another port"),
        ("machine", "address", "192.0.2.1 is not one of this machine", "set mesh_address"),
        ("machine", "clock", "from the controller", "timedatectl set-ntp true"),
        ("controller", "engine llama.cpp", "there is no", "build_engines"),
        ("controller", "engine whisper.cpp", "there is no", "whisper_cpp_prebuilt"),
        ("controller", "program nomad", "there is no", "correct its path"),
        ("controller", "archive of consul", "cannot be fetched", "name it by consul_binary"),
        ("builder", "source of llama.cpp", "cannot be fetched", "llama_cpp_archive"),
        ("builder", "source of whisper.cpp", "there is no", "whisper_cpp_archive"),
        ("damaged", "archive of consul", "another checksum", "Fetch it again."),
    ],
)  # fmt: skip
def test_fault_is_found_before_anything_changes(
    ran: tuple[Report, str], held: int, machine: str, feature: str, evidence: str, remedy: str
) -> None:
    """Each of these stopped a run after minutes, or made a service fail that was started."""
    check = failures(ran[0], machine)[feature.replace("HELD", str(held))]

    assert evidence in check["evidence"]
    assert remedy in check["remedy"]


def test_machine_without_a_fault_passes(ran: tuple[Report, str]) -> None:
    """A check that fails without a cause stops everybody."""
    assert failures(ran[0], "sound") == {}


def test_faults_of_a_machine_are_told_together(ran: tuple[Report, str]) -> None:
    """One fault per run would be ten runs."""
    # Ansible shows them as YAML.
    said = " ".join(ran[1].split()).replace("''", "'")
    found = failures(ran[0], "machine")

    assert len(found) > 7
    for check in found.values():
        assert f"FAIL {check['feature']}: {check['evidence']}. {check['remedy']}" in said
    assert "machine cannot be part of the cluster yet. Correct what is reported above" in said
    assert "sound cannot be part" not in said


LOGIN = """
- hosts: cluster
  gather_facts: false
  connection: local
  tasks:
    - ansible.builtin.import_role: {name: preflight_checks, tasks_from: login.yaml}
"""


def test_login_without_the_rights_of_root_is_told_with_the_remedy(tmp_path: Path) -> None:
    """Ansible would say that gathering facts failed."""
    sudo = tmp_path / "sudo"
    sudo.write_text("#!/bin/sh\necho 'me is not in the sudoers file.' >&2\nexit 1\n")
    sudo.chmod(0o755)
    hosts = {
        "refused": {"ansible_become_exe": str(sudo), "ansible_user": "me",
                    # Who is root already is not asked to become it.
                    "ansible_become_user": "nobody"},
        "without-python": {"ansible_python_interpreter": str(tmp_path / "python3"),
                           "ansible_become": False},
        "sound": {"ansible_become": False},
    }  # fmt: skip
    (tmp_path / "login.json").write_text(json.dumps({"cluster": {"hosts": hosts}}))
    (tmp_path / "login.yaml").write_text(LOGIN)

    ended = subprocess.run(
        [BIN / "ansible-playbook", "-i", tmp_path / "login.json", tmp_path / "login.yaml"],
        cwd=tree.ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "ANSIBLE_CONFIG": str(tree.ROOT / "ansible.cfg"), "NO_COLOR": "1"},
    )  # fmt: skip

    said = " ".join(ended.stdout.split())
    assert "refused: me cannot become root by sudo (me is not in the sudoers file.)" in said
    assert "adduser me sudo" in said
    assert "without-python has no Python. Run there as root: `apt-get install python3`" in said
    assert "sound: unchanged" in said
