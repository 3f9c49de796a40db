"""Molecule's scenarios, in the lab."""

from pathlib import Path

import pytest

from hearth.cluster import binaries
from hearth.lab.lab import Lab
from tests.lab.conftest import Boot
from tests.lab.playbooks import BIN, ROOT


@pytest.mark.hosts
@pytest.mark.timeout(900)
def test_default_scenario_passes_on_a_bare_host(boot: Boot, tmp_path: Path) -> None:
    """Who works on a role sees it converge twice, survive a reboot, and answer."""
    lab: Lab = boot("molecule", 1)
    password = tmp_path / "password"
    password.write_text("a password\n")
    settings = {
        "ANSIBLE_VAULT_PASSWORD_FILE": str(password),
        "HEARTH_CONSUL_BINARY": str(binaries.find("consul")),
        "MOLECULE_GLOB": "ansible/molecule/*/molecule.yml",
        "PATH": f"{BIN}:/usr/sbin:/usr/bin:/sbin:/bin",
    }

    ended = lab.run(
        [str(BIN / "molecule"), "test", "--scenario-name", "default", "--destroy", "never"],
        cwd=ROOT, settings=settings, check=False,
    )  # fmt: skip

    assert ended.returncode == 0, ended.stdout[-6000:] + ended.stderr[-3000:]
    # The scenario ends with an error where its second run changes something.
    assert "syntax, converge, idempotence, side_effect, verify" in ended.stdout + ended.stderr
