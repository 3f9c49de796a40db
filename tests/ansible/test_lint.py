"""The playbooks against ansible-lint's strictest profile."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ansible import tree

BIN = Path(sys.executable).parent


@pytest.mark.timeout(900)
@pytest.mark.proves("004-28", "004-29")
def test_every_playbook_and_role_passes_the_production_profile() -> None:
    """Modules instead of shell, names, modes, argument specs: one judge for all of it."""
    ended = subprocess.run(
        [BIN / "ansible-lint", "-c", "ansible/lint.yaml", "--nocolor", "-q"],
        cwd=tree.ROOT, capture_output=True, text=True, check=False,
        env=os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}"},
    )  # fmt: skip

    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_nobody_takes_a_rule_out_for_himself() -> None:
    """A skip hides the next mistake, too."""
    waived = [
        str(file.relative_to(tree.ROOT))
        for file in [*tree.ROOT.glob("*.yaml"), *(tree.ROOT / "ansible").rglob("*.yaml")]
        if "noqa" in file.read_text(encoding="utf-8")
    ]

    assert waived == []
