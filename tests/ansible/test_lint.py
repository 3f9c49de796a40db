"""The playbooks against ansible-lint's strictest profile."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import cache
from tests.ansible import tree
from tests.rules.tree import files

BIN = Path(sys.executable).parent
OUTPUT = "output"
READ = ("ansible", "group_vars", "host_vars", "inventory", "nomad_jobs")
"""The folders that ansible-lint reads beside the playbooks."""


@pytest.mark.timeout(900)
@pytest.mark.proves("004-28", "004-29")
def test_every_playbook_and_role_passes_the_production_profile() -> None:
    """Modules instead of shell, names, modes, argument specs: one judge for all of it.

    A clean result is kept for the same files and the same ansible-lint.
    """
    inputs: list[cache.Part] = [sys.version]
    for file in files():
        if file.parts[0] in READ or file.match("*.yaml") or file.name == "dev.lock":
            inputs += [str(file), tree.ROOT / file]

    output = (cache.entry("ansible-lint", inputs, lint) / OUTPUT).read_text()

    assert "Passed" in output


def lint(folder: Path) -> None:
    """Run ansible-lint and keep what it prints. Fails with its findings."""
    ended = subprocess.run(
        [BIN / "ansible-lint", "-c", "ansible/lint.yaml", "--nocolor"],
        cwd=tree.ROOT, capture_output=True, text=True, check=False,
        env=os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}"},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (folder / OUTPUT).write_text(ended.stdout + ended.stderr, encoding="utf-8")


def test_nobody_takes_a_rule_out_for_himself() -> None:
    """A skip hides the next mistake, too."""
    waived = [
        str(file.relative_to(tree.ROOT))
        for file in [*tree.ROOT.glob("*.yaml"), *(tree.ROOT / "ansible").rglob("*.yaml")]
        if "noqa" in file.read_text(encoding="utf-8")
    ]

    assert waived == []
