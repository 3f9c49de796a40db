"""The file of secrets, read and written by Ansible's own command, too."""

import os
import subprocess
import sys
from pathlib import Path

from ruamel.yaml import YAML

from hearth.cluster.secrets import SecretFile

WANTED = {"gossip": "gossip_key", "management": "token", "authority": "authority"}
ANSIBLE_VAULT = Path(sys.executable).parent / "ansible-vault"


def _ansible_vault(tmp_path: Path, verb: str, file: Path) -> str:
    (tmp_path / "password").write_text("pass phrase\n")
    return subprocess.run(
        [ANSIBLE_VAULT, verb, "--vault-password-file", tmp_path / "password", file],
        capture_output=True, text=True, check=True, env=os.environ | {"HOME": str(tmp_path)},
    ).stdout  # fmt: skip


def test_ansible_reads_what_we_wrote(tmp_path: Path) -> None:
    """The owner looks into the file, and changes it, with Ansible's own command."""
    file = tmp_path / "v.yaml"
    values = SecretFile(file, "pass phrase").ensure(WANTED).values

    shown = _ansible_vault(tmp_path, "view", file)

    assert YAML(typ="safe").load(shown) == values


def test_what_a_person_wrote_stays_with_its_comments(tmp_path: Path) -> None:
    """We read what Ansible encrypted, and append without touching a line."""
    file = tmp_path / "v.yaml"
    file.write_text("# of the printer\nprinter: 'pass'   # do not lose")
    _ansible_vault(tmp_path, "encrypt", file)

    made = SecretFile(file, "pass phrase").ensure({"a": "token"})
    shown = _ansible_vault(tmp_path, "view", file)

    assert shown.startswith("# of the printer\nprinter: 'pass'   # do not lose\na: ")
    assert SecretFile(file, "pass phrase").read() == {"printer": "pass", "a": made.values["a"]}
