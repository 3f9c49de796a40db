"""`hearth lab` as a person types it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from typer.testing import CliRunner

from hearth.lab.cli import lab_app
from hearth.lab.lab import Lab
from tests.lab.conftest import OURS, Boot
from tests.lab.traces import nothing, traces
from tests.rules import tree
from tests.shown import Shown

EXTENDED_INPUTS = ["docs/howto/lab.md", "hearth/lab/*"]

pytestmark = pytest.mark.hosts
BIN = Path(sys.executable).parent
Ended = subprocess.CompletedProcess[str]


class Shell:
    """Root's shell in the checkout, for whom `settings` are set."""

    def __init__(self, settings: dict[str, str]) -> None:
        self.environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", **settings}

    def types(self, text: str) -> Ended:
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=tree.ROOT, env=self.environment, capture_output=True, text=True, check=False,
            timeout=300,
        )  # fmt: skip


@pytest.fixture
def shell() -> Shell:
    """For whom `lab` is a lab of this run."""
    return Shell({"HEARTH_LAB_NAME": f"{OURS}-typed"})


@pytest.fixture
def elsewhere(bare: Lab) -> Iterator[Shell]:
    """Labs and layers of its own, above the base tree that there is."""
    with TemporaryDirectory(prefix="hearth-lab-", dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        (Path(folder) / "base").symlink_to(bare.folders.bases)
        name = f"{OURS}-page"
        yield Shell({"HEARTH_LAB_NAME": name, "HEARTH_LAB_DIR": folder})
        Lab(name, root=Path(folder)).down()


@pytest.mark.extended
def test_page_about_the_lab_works_as_written(elsewhere: Shell, shown: Shown) -> None:
    """It is read by somebody who wants to risk nothing, so it must be right."""
    page = "docs/howto/lab.md"

    said = []
    while any(place.startswith(page) for place in shown.left()):
        block = shown.take(page)
        ended = elsewhere.types(block)
        assert ended.returncode == 0, f"{block}{ended.stdout}{ended.stderr}"
        said.append(ended.stdout)

    table = [line.split() for line in said[0].splitlines()]
    assert ["node3", "10.231.7.13", "on", "Debian", "12"] in table
    assert said[1].count("SUCCESS") == 3
    assert traces(elsewhere.environment["HEARTH_LAB_NAME"]) == nothing()


def test_command_inside_knows_its_lab(shell: Shell, boot: Boot) -> None:
    """A playbook that runs inside may reboot a host of that lab, and of no other."""
    lab = boot("inside", 1)

    ended = shell.types(
        f"hearth lab exec --name {lab.name} -- sh -c 'hearth lab status --json; ls $HEARTH_LAB_KEY'"
    )

    status, _, key = ended.stdout.rpartition("}\n")
    assert json.loads(f"{status}}}")["nodes"] == [
        {
            "name": "node1",
            "address": "10.231.7.11",
            "state": "on",
            "connected": True,
            "system": "Debian 12",
        }
    ]
    assert key.strip() == str(lab.key)
    lab.down()


def test_exit_code_of_a_command_is_its_own(shell: Shell, bare: Lab) -> None:
    """Scripts go by it."""
    assert shell.types(f"hearth lab exec --name {bare.name} -- false").returncode == 1
    assert shell.types("hearth lab status").returncode == 3


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("hearth lab shell node1", "start it with `hearth lab up 3"),
        ("hearth lab kill nod2 --name {bare}", "did you mean node"),
        ("hearth lab up 0", "between 1 and 200"),
        ("hearth lab up 1 --name Bad_Name", "not a valid name"),
        ("hearth lab up 1 --from nowhere", "no snapshot 'nowhere'"),
        ("hearth lab drop nowhere", "no snapshot 'nowhere'"),
        ("hearth lab move node1 10.9.9.9 --name {bare}", "not on the lab's network"),
        ("hearth lab move node1 10.231.7.12 --name {bare}", "is taken"),
    ],
)
def test_mistake_is_told_in_one_sentence(bare: Lab, command: str, sentence: str) -> None:
    """A person mends what a sentence says; a traceback is mended by nobody."""
    words = command.format(bare=bare.name).split()[2:]

    ended = CliRunner(env={"HEARTH_LAB_NAME": f"{OURS}-typed"}).invoke(lab_app, words)

    assert ended.exit_code == 1
    assert sentence in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_controller_without_the_packages_is_told_which(tmp_path: Path) -> None:
    """The one command that mends it can be copied from the message."""
    ended = CliRunner(env={"PATH": str(tmp_path)}).invoke(lab_app, ["up", "1"])

    assert ended.exit_code == 1
    assert "apt-get install systemd-container" in ended.stderr
