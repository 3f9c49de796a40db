"""The retry of failed tests: once, only a few, and only when every lane has finished."""

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.retry import MOST, RETRIED
from tests.rules import tree

EXTENDED_INPUTS = ["tests/retry.py"]
pytestmark = pytest.mark.extended

FLAKY = """
from pathlib import Path

import pytest


@pytest.mark.proves("001-01")
def test_it():
    asked = Path({asked!r})
    before = asked.exists()
    asked.touch()
    assert before
"""


def lane(folder: Path, name: str, failed: list[str], outcome: str, kind: str = "failure") -> Path:
    """What a run of some tests leaves behind. `kind`: what the tests, or their set-up, met."""
    part = folder / f"{name}.json"
    named = {test.partition("[")[0]: outcome for test in failed}
    part.write_text(json.dumps({"001-01": named}), encoding="utf-8")
    kept = folder / f"{name}.cache" / "v" / "cache" / "lastfailed"
    kept.parent.mkdir(parents=True)
    kept.write_text(json.dumps(dict.fromkeys(failed, True)), encoding="utf-8")
    suite = ElementTree.Element("testsuite")
    for test in failed:
        function = test.rpartition("::")[2]
        case = ElementTree.SubElement(suite, "testcase", classname="flaky", name=function)
        wrong = ElementTree.SubElement(case, kind, message="[+264 more lines]")
        wrong.text = "first line\n#x1B[31mNo cluster today#x1B[0m"
    ElementTree.ElementTree(suite).write(folder / f"{name}.xml")
    return part


def retry(folder: Path, *lanes: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            sys.executable, "-m", "tests.retry", str(folder), *lanes,
            "--", sys.executable, "-m", "pytest",
        ],
        cwd=tree.ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture
def flaky(tmp_path: Path) -> str:
    """A test that fails when it is run for the first time."""
    file = tmp_path / "test_flaky.py"
    file.write_text(FLAKY.format(asked=str(tmp_path / "asked")), encoding="utf-8")
    return f"{file}::test_it"


def test_test_that_failed_beside_others_is_retried_and_named(tmp_path: Path, flaky: str) -> None:
    """It must neither cost a whole run nor stay unseen."""
    (tmp_path / "asked").touch()
    part, other = lane(tmp_path, "a", [flaky], "failed"), lane(tmp_path, "b", [], "passed")
    ended = retry(tmp_path, "a", "b")

    assert ended.returncode == 0, ended.stdout
    assert (tmp_path / RETRIED).read_text() == f"{flaky}: [+264 more lines]\n"
    assert json.loads(part.read_text(encoding="utf-8")) == {"001-01": {flaky: "passed"}}
    assert json.loads(other.read_text(encoding="utf-8")) == {"001-01": {}}


def test_test_that_fails_again_has_failed(tmp_path: Path, flaky: str) -> None:
    """A second try is not a third: a defect stays one. The last lines name all that failed before,
    also what passes now, because often only the end of a log is kept."""
    part = lane(tmp_path, "a", [flaky], "failed")
    ended = retry(tmp_path, "a")

    assert ended.returncode == 1, ended.stdout
    assert ended.stdout.endswith(f"  {flaky}: [+264 more lines]\n")
    assert json.loads(part.read_text(encoding="utf-8")) == {"001-01": {flaky: "failed"}}


@pytest.mark.parametrize("count", [0, MOST + 1])
def test_only_a_few_are_retried(tmp_path: Path, count: int) -> None:
    """Many failures have one cause, and a run that failed without one has another."""
    lane(tmp_path, "a", [f"tests/unit/none.py::test_{n}" for n in range(count)], "failed")
    ended = retry(tmp_path, "a")

    assert ended.returncode == 1
    assert f"{count} tests failed for {count} causes" in ended.stderr
    assert ended.stdout.count("No cluster today") == count


def test_what_many_tests_share_is_one_cause_and_is_said_once(tmp_path: Path, flaky: str) -> None:
    """A cluster that did not come up fails all its tests, and its last words tell why."""
    (tmp_path / "asked").touch()
    tests = [f"{flaky}[{n}]" for n in range(MOST)] + [flaky]
    lane(tmp_path, "a", tests, "failed", "error")
    ended = retry(tmp_path, "a")

    assert ended.stdout.count("  No cluster today\n") == 1
    assert "retried alone" in ended.stdout


def test_nothing_is_retried_when_a_lane_did_not_run(tmp_path: Path, flaky: str) -> None:
    """A lane that could not be installed has no failed test, and has shown nothing."""
    (tmp_path / "asked").touch()
    lane(tmp_path, "a", [flaky], "failed")
    ended = retry(tmp_path, "a", "lab")

    assert ended.returncode == 1
    assert "lab" in ended.stderr
