"""`./bootstrap.sh -i INVENTORY` as a person types it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hearth.lab.lab import Lab
from tests.lab.conftest import OURS
from tests.rules import tree
from tests.shown import Shown

EXTENDED_INPUTS = ["bootstrap.sh", "playbook.yaml", "ansible/roles/**", "docs/howto/cluster.md"]
NAME = f"{OURS}-bootstrap"
BIN = Path(sys.executable).parent


def types(text: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Root's shell in the checkout, without a terminal."""
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", **settings}
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        cwd=tree.ROOT, env=environment, capture_output=True, text=True, check=False, timeout=600,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip


@pytest.fixture
def named(labs: dict[str, Lab]) -> Iterator[str]:
    """The name of a lab of this test."""
    yield NAME
    Lab(NAME).down()


@pytest.mark.extended
@pytest.mark.hosts
@pytest.mark.nomad
@pytest.mark.timeout(900)
def test_lab_is_brought_up_by_one_command(named: str, shown: Shown) -> None:
    """The command enters the lab's network by itself and begins with the report."""
    ended = types(shown.take("docs/howto/cluster.md"), HEARTH_LAB_NAME=named)

    assert ended.returncode == 0, ended.stdout[-4000:] + ended.stderr[-2000:]
    assert ended.stdout.count("checks pass") == 3
    report = json.loads((tree.ROOT / ".cache" / "preflight" / "lab.json").read_text())
    assert set(report) == {"node1", "node2", "node3"}
    assert all(check["remedy"] for checks in report.values() for check in checks
               if check["state"] != "pass")  # fmt: skip


def test_missing_inventory_is_told_with_the_remedy() -> None:
    """The first mistake that a new user makes is the name of the file."""
    ended = types("./bootstrap.sh -i inventory/home-of-nobody.yaml")

    assert ended.returncode == 1
    assert "cp inventory/example.yaml inventory/home.yaml" in ended.stderr


def test_password_that_cannot_be_asked_for_is_told_with_the_remedy(tmp_path: Path) -> None:
    """A run from cron has no terminal; it must not hang."""
    inventory = tmp_path / "home.yaml"
    inventory.write_text("cluster: {hosts: {desk: {ansible_host: 192.0.2.1}}}\n")

    ended = types(f"./bootstrap.sh -i {inventory} --syntax-check")

    assert ended.returncode == 1
    assert "HEARTH_VAULT_PASSWORD_FILE" in ended.stderr


def test_machine_that_does_not_answer_is_told_with_the_remedy(tmp_path: Path) -> None:
    """A plug was pulled: ssh's words name no machine by its name, and nothing that helps."""
    inventory, password = tmp_path / "home.yaml", tmp_path / "password"
    desk = "{ansible_host: 127.0.0.1, ansible_port: 1}"
    inventory.write_text(f"cluster: {{hosts: {{desk: {desk}}}, vars: {{ansible_user: root}}}}\n")
    password.write_text("a password\n")

    ended = types(f"./bootstrap.sh -i {inventory}", HEARTH_VAULT_PASSWORD_FILE=str(password))

    assert ended.returncode == 4
    remedy = ended.stdout.rpartition("\nSummary\n")[2]
    assert "desk: no answer, or none any more. See whether power and cable are in" in remedy
    assert "run the same command again" in remedy


def test_other_playbook_is_run_with_what_the_first_one_is_asked_for(tmp_path: Path) -> None:
    """Who heals, upgrades or adds an expert types no paths of programs and no options of vaults."""
    inventory, password = tmp_path / "home.yaml", tmp_path / "password"
    desk = "{ansible_host: 127.0.0.1, ansible_port: 1}"
    inventory.write_text(f"cluster: {{hosts: {{desk: {desk}}}, vars: {{ansible_user: root}}}}\n")
    password.write_text("a password\n")

    words = f"./bootstrap.sh -i {inventory} uninstall.yaml --limit desk"
    ended = types(words, HEARTH_VAULT_PASSWORD_FILE=str(password))

    assert ended.returncode != 0
    assert "desk: no answer" in ended.stdout
    assert "[1/4] Prepare the secrets" in ended.stdout
    assert "Check the inventory" not in ended.stdout


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("{hosts: {a: {ansible_host: 10.0.0.1}, b: {ansible_host: 10.0.0.1}}}", "there twice"),
        ("{hosts: {a: }, vars: {cluster_security: high}}", "full, lan or none"),
        ("{hosts: {a: }, children: {servers: {hosts: {a: , b: }}}}", "one or three"),
        ("{hosts: {a: {power_class: sleeps}}, children: {servers: {hosts: {a: }}}}", "suspended"),
        ("{hosts: {a: }, vars: {moe_gateway_keys_machine: b}}", "always on: a."),
    ],
)
def test_wrong_inventory_is_refused_before_any_machine_is_asked(
    tmp_path: Path, wrong: str, words: str
) -> None:
    """A typing mistake costs a second, and no machine."""
    inventory, password = tmp_path / "home.yaml", tmp_path / "password"
    inventory.write_text(f"cluster: {wrong}\n")
    password.write_text("a password\n")

    ended = types(
        f"./bootstrap.sh -i {inventory} --tags preflight_checks_inventory -e ansible_user=root",
        HEARTH_VAULT_PASSWORD_FILE=str(password),
    )

    assert ended.returncode != 0
    assert words in ended.stdout + ended.stderr
