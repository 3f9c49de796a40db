"""The rings are a promise: what was not shown here is said, and nothing else is hidden."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import proofs, rings
from tests.rules import tree

EXTENDED_INPUTS = [
    "tests/rings.py",
    "tests/strict.py",
    "tests/proofs.py",
    "tests/extended.py",
    "tests/isolation.py",
]
pytestmark = pytest.mark.extended

TESTS = """
import pytest

@pytest.mark.nomad
def test_job():
    raise AssertionError("this runs only with a Nomad")

@pytest.mark.hosts
def test_host():
    assert False, "this runs only where hosts can be booted"

def test_plain():
    pass
"""
CONFTEST = 'pytest_plugins = ["tests.rings", "tests.strict"]'
MARKERS = "[pytest]\nmarkers =\n    hosts: x\n    nomad: x\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Three tests, one of each kind, in a folder of their own."""
    for name, text in {
        "test_it.py": TESTS, "conftest.py": CONFTEST, "pytest.ini": MARKERS,
    }.items():  # fmt: skip
        (tmp_path / name).write_text(text, encoding="utf-8")
    tmp_path.chmod(0o755)
    return tmp_path


def run(project: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run them on a machine that has neither a Nomad nor what hosts need."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-rs", project],
        env={"PATH": str(project), "PYTHONPATH": str(tree.ROOT), **settings},
        cwd=project, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_nomad_ring_is_left_out_and_said_last_where_there_is_no_nomad(project: Path) -> None:
    """Who reads only the last line must not take the cluster for proven."""
    ended = run(project)

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.splitlines()[-1] == rings.NOT_PROVEN
    assert "1 passed, 1 skipped, 1 deselected" in ended.stdout


def test_nomad_ring_is_the_one_exception_to_strictness(project: Path) -> None:
    """No registry has a Nomad, but every machine of ours can boot hosts."""
    ended = run(project, HEARTH_TEST_STRICT="1")

    assert ended.returncode == 1
    assert ended.stdout.splitlines()[-1] == rings.NOT_PROVEN
    assert "1 passed, 1 deselected, 1 error" in ended.stdout
    assert "test_host" in ended.stdout


def test_nomad_ring_runs_with_the_binary_that_a_setting_names(project: Path) -> None:
    """A machine that has one must use it, and may not stay silent about what fails."""
    ended = run(project, HEARTH_NOMAD_BINARY="/somewhere/nomad")

    assert "this runs only with a Nomad" in ended.stdout
    assert rings.NOT_PROVEN not in ended.stdout


def test_reason_names_what_the_machine_lacks(project: Path) -> None:
    """A skip without a remedy stays a skip for ever."""
    wanted = "apt-get install" if os.geteuid() == 0 else "run this again with sudo"

    assert wanted in run(project).stdout


def test_proof_table_keeps_what_another_machine_has_shown(request: pytest.FixtureRequest) -> None:
    """Leaving a ring out must neither erase its proofs nor count as showing them."""
    number, results = next(iter(proofs.committed().items()))
    test, outcome = next(iter(results.items()))
    book = proofs.ProofBook(request.config)
    assert book.shown() == {}

    request.config.stash[rings.LEFT_OUT].add(f"{test}[one of several]")
    try:
        assert book.shown()[number] == {test: outcome}
    finally:
        request.config.stash[rings.LEFT_OUT].clear()


def test_runs_that_are_one_whole_are_joined(tmp_path: Path) -> None:
    """Half a run must neither pass for the table nor fail because the other half is elsewhere."""
    table = proofs.committed()
    halves = [dict(list(table.items())[::2]), dict(list(table.items())[1::2])]
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    for file, half in zip(files, halves, strict=True):
        file.write_text(json.dumps(half), encoding="utf-8")

    assert check(*files).returncode == 0
    alone = check(files[0])
    assert alone.returncode == 1
    assert all(number in alone.stderr for number in halves[1])


def test_test_that_failed_in_one_of_two_runs_has_failed() -> None:
    """It may not pass because the other run was looked at last."""
    passed, failed = {"001-01": {"a": "passed"}}, {"001-01": {"a": "failed"}}

    assert proofs.joined([passed, failed]) == proofs.joined([failed, passed]) == failed


def test_run_writes_what_it_shows_as_a_part(tmp_path: Path) -> None:
    """The parts that continuous integration joins come from the runs themselves."""
    part = tmp_path / "part.json"
    test = "tests/rules/test_layout.py::test_tree_holds_nothing_outside_its_known_places"
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "--proofs-part", part,
         test],
        cwd=tree.ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert ended.returncode == 0, ended.stdout
    assert json.loads(part.read_text(encoding="utf-8")) == {"001-01": {test: "passed"}}


def check(*files: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.proofs", "check", *files],
        cwd=tree.ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip


OUTGOING = """
import socket, subprocess, sys

def test_process():
    subprocess.run([sys.executable, "-c", ""], check=True)

def test_connection():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))

def test_plain():
    pass
"""


def test_unit_test_that_starts_a_process_or_opens_a_connection_fails(tmp_path: Path) -> None:
    """One slow test after the other would make the quick ring slow; elsewhere both are allowed."""
    for layer in ("unit", "integration"):
        folder = tmp_path / "tests" / layer
        folder.mkdir(parents=True)
        (folder / f"test_{layer}.py").write_text(OUTGOING, encoding="utf-8")
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["tests.isolation"]', encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n")

    ended = run(tmp_path)

    assert "4 passed, 2 failed" in ended.stdout or "6 passed, 2 errors" in ended.stdout
    assert ended.stdout.count("move it to tests/integration") == 2
    assert "socket.bind" in ended.stdout


def test_extended_tests_run_only_where_they_are_asked_for() -> None:
    """A quick run must not contain them, and a run of them contains nothing else."""
    folder = "tests/integration/gateway/clients"
    collect = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "--co", folder]

    found = {
        mode: subprocess.run(
            [*collect, "--extended", mode], cwd=tree.ROOT, capture_output=True, text=True,
            check=True,
        ).stdout
        for mode in ("none", "all")
    }  # fmt: skip

    assert "test_litellm" not in found["none"]
    assert "test_openai_node" in found["none"]
    assert "test_litellm" in found["all"]
    assert "test_openai_node" not in found["all"]
