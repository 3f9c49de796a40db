"""Molecule's scenarios, in the lab."""

import shutil
import subprocess
import threading
from collections.abc import Iterator

import pytest

from hearth.cluster import binaries
from hearth.lab.lab import Lab
from tests.lab.conftest import Boot, Golden
from tests.lab.layers import MACHINES
from tests.lab.playbooks import BIN, ROOT, told, vault

pytestmark = [pytest.mark.hosts, pytest.mark.extended, pytest.mark.timeout(900)]
EXTENDED_INPUTS = [
    "ansible.cfg", "ansible/molecule/**", "ansible/plugins/**", "ansible/roles/binary/**",
    "ansible/roles/certificate/**", "ansible/roles/consul/**", "ansible/roles/docker/**",
    "ansible/roles/host/**", "ansible/roles/nomad/**", "ansible/roles/preflight_checks/**",
    "group_vars/**", "playbook.yaml", "secrets.yaml", "hearth/cluster/**", "hearth/lab/**",
    "requirements/dev.lock",
]  # fmt: skip
SCENARIO = "ansible/molecule/default"
LOG = "/var/log/dpkg.log"
UNPACKING = f"timeout 300 sh -c 'until grep -qs half-installed {LOG}; do sleep 0.05; done'"
"""Its log stays, where dpkg itself may come and go between two looks."""


@pytest.fixture(scope="module")
def lab(boot: Boot) -> Iterator[Lab]:
    """One bare host."""
    lab = boot("molecule", 1)
    yield lab
    lab.down()


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What Ansible and Molecule find things by."""
    password = tmp_path_factory.mktemp("molecule") / "password"
    password.write_text("a password\n")
    return {
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_STDOUT_CALLBACK": "default",
        "ANSIBLE_VAULT_PASSWORD_FILE": str(password),
        "HEARTH_CONSUL_BINARY": str(binaries.find("consul")),
        "MOLECULE_GLOB": "ansible/molecule/*/molecule.yml",
        "PATH": f"{BIN}:/usr/sbin:/usr/bin:/sbin:/bin",
    }


def test_power_loss_in_mid_converge_ends_the_run(lab: Lab, settings: dict[str, str]) -> None:
    """The worst moment is while packages are unpacked; the next test goes on from there."""
    ended: list[subprocess.CompletedProcess[str]] = []
    run = threading.Thread(
        target=lambda: ended.append(
            lab.run(
                [str(BIN / "ansible-playbook"), "-i", f"{SCENARIO}/inventory.yaml", "playbook.yaml",
                 "--tags=host"],
                cwd=ROOT, settings=settings, check=False,
            )
        )
    )  # fmt: skip
    node = lab.node("node1")
    node.ssh(f"rm -f {LOG}")
    run.start()
    node.ssh(UNPACKING, seconds=330)
    node.kill()
    node.reboot()
    run.join()

    assert ended[0].returncode != 0
    assert "UNREACHABLE" in ended[0].stdout
    remedy = ended[0].stdout.rpartition("PLAY RECAP")[2]
    assert "node1: no answer, or none any more. See whether power and cable are in" in remedy


@pytest.mark.proves("004-37")
def test_default_scenario_passes_on_that_host(lab: Lab, settings: dict[str, str]) -> None:
    """Who works on a role sees it converge twice, survive a reboot, and answer."""
    ended = lab.run(
        [str(BIN / "molecule"), "test", "--scenario-name", "default", "--destroy", "never"],
        cwd=ROOT, settings=settings, check=False,
    )  # fmt: skip

    assert ended.returncode == 0, ended.stdout[-6000:] + ended.stderr[-3000:]
    # The scenario ends with an error where its second run changes something.
    assert "syntax, converge, idempotence, side_effect, verify" in ended.stdout + ended.stderr


@pytest.fixture(scope="module")
def hosts(golden: Golden, boot: Boot) -> Iterator[Lab]:
    """Three hosts with all but Nomad, and with the secrets of their cluster."""
    lab = boot("molecule-cluster", 3, layer=golden(MACHINES).layer)
    shutil.copy(vault(), lab.folder)
    yield lab
    lab.down()


@pytest.mark.nomad
def test_cluster_scenario_passes_on_three_hosts(hosts: Lab) -> None:
    """Who works on a role that needs other machines sees three of them converge and answer.

    Nomad is what is new to these.
    """
    ran = told(
        hosts,
        [str(BIN / "molecule"), "test", "--scenario-name", "cluster", "--destroy", "never"],
        MOLECULE_GLOB="ansible/molecule/*/molecule.yml",
        PATH=f"{BIN}:/usr/sbin:/usr/bin:/sbin:/bin",
    )

    said = ran.output + ran.errors
    assert "syntax, converge, idempotence, verify" in said
    for node in hosts.nodes():
        assert f"changed: [{node.name}]" in said
        assert node.ssh("systemctl is-active nomad consul").split() == ["active", "active"]
