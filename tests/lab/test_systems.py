"""Hosts with another system or architecture: what the roles do there, up to Hearth's own code."""

import json
import subprocess
import zipfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Final

import pytest

from hearth.lab.systems import EMULATORS
from tests.binaries.consul.build import build, version
from tests.lab.conftest import Boot
from tests.lab.playbooks import MACHINE_TAGS, ROOT, play, release

EXTENDED_INPUTS = [
    "ansible/roles/preflight_checks/**", "ansible/roles/host/**", "ansible/roles/docker/**",
    "ansible/roles/consul/**", "ansible/roles/hearth_release/**", "hearth/lab/systems.py",
]  # fmt: skip
REGISTRATION: Final = Path("/usr/lib/binfmt.d/qemu-aarch64.conf")
"""Debian's registration of qemu with the kernel; systemd makes it when a machine boots."""
pytestmark = [pytest.mark.extended, pytest.mark.hosts, pytest.mark.timeout(1800)]


def test_host_with_ubuntu_becomes_a_server_of_a_cluster(boot: Boot) -> None:
    """Many machines of homes run Ubuntu; its packages, its Python and its AppArmor differ."""
    release("3.12")
    lab = boot("ubuntu", 1, system="ubuntu-24.04")
    node = lab.node("node1")

    ran = play(lab, "--tags", MACHINE_TAGS, nodes=1)
    again = play(lab, "--tags", MACHINE_TAGS, nodes=1)

    assert "WARN system" not in ran.output
    assert again.changed == {"node1": 0}, again.changes
    assert "Ubuntu 24.04" in node.ssh("cat /etc/os-release")
    assert node.ssh("/opt/hearth/current/venv/bin/python --version").startswith("Python 3.12")
    assert "doctor" in node.ssh("/opt/hearth/current/venv/bin/hearth --help")
    assert node.ssh("docker info --format '{{.ServerVersion}}'").strip()
    assert node.ssh("systemctl is-active consul docker").split() == ["active", "active"]
    assert "userns" in node.ssh("cat /etc/apparmor.d/hearth-bwrap")
    lab.down()


@pytest.fixture
def emulator() -> Iterator[None]:
    """Let the kernel run programs for arm64 with qemu."""
    entry = EMULATORS["arm64"]
    if not (entry.parent / "register").exists():
        subprocess.run(["mount", "-t", "binfmt_misc", "binfmt_misc", entry.parent], check=True)
    registered = entry.exists()
    if not registered:
        (entry.parent / "register").write_bytes(REGISTRATION.read_bytes().strip())
    yield
    if not registered:
        entry.write_text("-1", encoding="ascii")


def playbook_of_binary(folder: Path) -> str:
    """Write a playbook that installs Consul from an archive, and return its path."""
    role = {
        "role": "binary", "binary_name": "consul", "binary_artifact": archive_of_consul(folder),
        "binary_cache": str(folder / "cache"),
    }  # fmt: skip
    file = folder / "binary.yaml"
    document = {
        "hosts": "cluster", "become": True, "gather_subset": ["min"],
        "vars_files": [str(ROOT / "group_vars/all/main.yaml")], "roles": [role],
    }  # fmt: skip
    file.write_text(json.dumps([document]), encoding="utf-8")
    return str(file)


def archive_of_consul(folder: Path) -> dict[str, object]:
    """Return the variable of archives for arm64, as the project of Consul publishes them."""
    archive = folder / f"consul_{version()}_linux_arm64.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.write(build("arm64"), "consul")
    digest = sha256(archive.read_bytes()).hexdigest()
    published = {"url": f"file://{archive}", "sha256": digest}
    other = {"url": "file:///nonexistent", "sha256": "0" * 64}
    return {
        "version": version(), "member": "consul", "archives": {"amd64": other, "arm64": published},
    }  # fmt: skip


def test_host_with_arm64_gets_the_programs_of_its_architecture(
    boot: Boot, emulator: None, tmp_path: Path
) -> None:
    """Boards and small servers of homes are arm64: checks, packages, users, and an archive.

    qemu translates the programs of the host one by one, and does not know the kernel's interface
    for firewalls (netlink), so the role `host` goes no further here, nor do services.
    """
    lab = boot("arm64", 1, system="debian-12-arm64")
    node = lab.node("node1")
    binary = playbook_of_binary(tmp_path)

    ran = play(lab, "--tags", "preflight_checks,host_users", nodes=1)
    installed = play(lab, nodes=1, playbook=binary)
    again = play(lab, nodes=1, playbook=binary)

    assert installed.changed["node1"] > 0
    assert node.ssh("uname -m").strip() == "aarch64"
    assert again.changed == {"node1": 0}, again.changes
    # ELF: 64 bit, for machine 183 (AArch64).
    header = node.ssh("head -c 20 $(readlink -f /usr/local/bin/consul) | od -An -t u2 -j 18")
    assert header.split() == ["183"]
    assert node.ssh("consul version").startswith(f"Consul v{version()}")
    assert ran.changed["node1"] > 0
    lab.down()
