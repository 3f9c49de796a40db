"""The role `binary` brings one program: fetched, unpacked and linked, here on this machine."""

import hashlib
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.ansible import tree

BIN = Path(sys.executable).parent
EXTENDED_INPUTS = ["ansible/roles/binary/*"]
PLAY = [{"hosts": "all", "gather_subset": ["min"], "roles": [{"role": "binary"}]}]


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, object]:
    """A program of 4 MB, which an archive holds that is published."""
    if os.geteuid() != 0:
        pytest.skip("roles act as root")
    program, archive = tmp_path / "made" / "tool", tmp_path / "tool.tar.gz"
    program.parent.mkdir()
    program.write_bytes(b"#!/bin/sh\nexit 0\n" + bytes(4_000_000))
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(program, "folder/tool")
    published = {
        "url": archive.as_uri(), "sha256": hashlib.sha256(archive.read_bytes()).hexdigest(),
        "member": "folder/tool",
    }  # fmt: skip
    (tmp_path / "links").mkdir()
    # Beside the inventory, Ansible finds what holds for every machine.
    (tmp_path / "group_vars").symlink_to(tree.ROOT / "group_vars")
    return {
        "ansible_connection": "local", "ansible_python_interpreter": sys.executable,
        "binary_name": "tool", "binary_root": str(tmp_path / "root"),
        "binary_artifact": {
            "version": "1.0", "archives": dict.fromkeys(("amd64", "arm64"), published),
        },
        "binary_links": str(tmp_path / "links"), "binary_cache": str(tmp_path / "cache"),
    }  # fmt: skip


@pytest.mark.extended
def test_program_that_was_half_unpacked_is_not_taken_for_whole(
    variables: dict[str, object], tmp_path: Path
) -> None:
    """The power fails, or the disk is full, at the worst moment: the next run brings it again."""
    cut_short = _play(tmp_path, variables, disk_kb="2000")
    again = _play(tmp_path, variables)
    third = _play(tmp_path, variables)

    assert cut_short.returncode != 0
    assert "Unpack the archive of tool" in cut_short.stdout
    assert again.returncode == 0, again.stdout
    found = (tmp_path / "links" / "tool").read_bytes()
    assert found == (tmp_path / "made" / "tool").read_bytes()
    assert "changed=0" in third.stdout, third.stdout


def _play(
    folder: Path, variables: dict[str, object], disk_kb: str = "unlimited"
) -> subprocess.CompletedProcess[str]:
    """Run the role where no file can become larger than that."""
    (folder / "play.json").write_text(json.dumps(PLAY))
    (folder / "hosts.json").write_text(json.dumps({"all": {"hosts": {"here": variables}}}))
    words = [str(BIN / "ansible-playbook"), "-i", "hosts.json", "play.json"]
    return subprocess.run(
        ["bash", "-c", 'ulimit -f "$0" && exec "$@"', disk_kb, *words],
        cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, "ANSIBLE_CONFIG": str(tree.ROOT / "ansible.cfg"), "NO_COLOR": "1",
             "ANSIBLE_STDOUT_CALLBACK": "default"},
    )  # fmt: skip
