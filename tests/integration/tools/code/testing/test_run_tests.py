"""The tool `code.test` on real projects, with the real pytest in the sandbox."""

from typing import Any

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context, ToolFailed
from tests.support.projects import wheels
from tests.support.projects.files import write

EXTENDED_INPUTS = ["pipecatapp/tools/code/testing/**", "pipecatapp/sandbox/**"]

TEST = TOOLS["code.test"]
SHOP = """
def total(prices):
    return sum(prices)


def wait():
    while True:
        pass
"""
CASES = '''
import unittest

import pytest

from shop import total, wait


def test_sum():
    """One that passes."""
    assert total([1, 2]) == 3


@pytest.mark.parametrize("price", [1, "a b"])
def test_one(price):
    assert total([price]) == 1


class TestMore:
    def test_skipped(self):
        pytest.skip("no shop")


class Old(unittest.TestCase):
    def test_fails(self):
        self.assertEqual(total([]), 1)


@pytest.fixture
def broken():
    raise OSError("no disk")


def test_fixture(broken):
    pass


@pytest.mark.xfail
def test_expected():
    assert False
'''


def outcomes(result: dict[str, Any]) -> dict[str, str]:
    return {case["id"]: case["outcome"] for case in result["tests"]}


async def test_each_test_is_reported_by_its_id(project: Context, with_pytest: str) -> None:
    """A workflow branches on single tests, and runs those by their ids again."""
    root = write(project, shop=SHOP, tests__test_shop=CASES)
    given = {"command": "pytest -q", "packages": with_pytest}

    result = await TEST.check(project, given)

    file = "tests/test_shop.py"
    assert outcomes(result) == {
        f"{file}::test_sum": "passed",
        f"{file}::test_one[1]": "passed",
        f"{file}::test_one[a b]": "failed",
        f"{file}::TestMore::test_skipped": "skipped",
        f"{file}::Old::test_fails": "failed",
        f"{file}::test_fixture": "error",
        f"{file}::test_expected": "skipped",
    }
    counts = [result[name] for name in ("passed", "failed", "errors", "skipped")]
    assert (counts, result["per_test"], result["ok"]) == ([2, 2, 1, 2], True, False)
    cases = {case["id"]: case for case in result["tests"]}
    assert (cases[f"{file}::test_sum"]["file"], cases[f"{file}::test_sum"]["line"]) == (file, 9)
    assert cases[f"{file}::test_one[a b]"]["message"].startswith("TypeError: unsupported operand")
    assert cases[f"{file}::Old::test_fails"]["message"] == "AssertionError: 0 != 1"
    assert "no disk" in cases[f"{file}::test_fixture"]["message"]
    assert result["error"] is not None
    assert sorted(path.name for path in root.iterdir()) == ["shop.py", "tests"]

    for chosen in (f"{file}::test_one[a b]", f"{file}::Old::test_fails"):
        again = await TEST.check(
            project, {**given, "command": f"pytest -q {file}", "tests": [chosen]}
        )
        assert outcomes(again) == {chosen: "failed"}


@pytest.mark.parametrize("command", ["make test", "sh -c 'pytest -q'", "cd . && pytest -q"])
async def test_pytest_below_another_program_is_reported_too(
    project: Context, with_pytest: str, command: str
) -> None:
    """Projects start their tests by make, a script or tox."""
    root = write(project, test_a="def test_a(): pass\n")
    (root / "Makefile").write_text("test:\n\tpytest -q\n", encoding="utf-8")

    result = await TEST.check(project, {"command": command, "packages": with_pytest})

    assert outcomes(result) == {"test_a.py::test_a": "passed"}


async def test_folder_of_a_project_is_where_its_tests_run(
    project: Context, with_pytest: str
) -> None:
    """A workspace may hold several projects; ids are the project's, files the workspace's."""
    root = write(project, app__shop=SHOP, app__tests__test_shop=CASES, other__test_x="x = 1 / 0")
    (root / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    test = "tests/test_shop.py::test_sum"

    result = await TEST.check(
        project,
        {"command": "pytest", "folder": "app", "tests": [test], "packages": with_pytest},
    )

    assert outcomes(result) == {test: "passed"}
    assert result["tests"][0]["file"] == "app/tests/test_shop.py"


@pytest.mark.extended
async def test_real_package_is_tested_and_its_bug_is_found(
    project: Context, with_pytest: str
) -> None:
    """toolz ships its tests; one wrong operator fails those of that function alone."""
    assert project.workspace is not None
    wheels.unpack("toolz", project.workspace)
    given = {"command": "pytest -q toolz", "packages": with_pytest}
    source = project.workspace / "toolz" / "itertoolz.py"

    whole = await TEST.check(project, given)
    text = source.read_text(encoding="utf-8")
    source.write_text(text.replace("if n < 0:", "if n > 0:").replace("x, y = y, x", "x, y = x, y"))
    text = source.read_text(encoding="utf-8").replace("return next(iter(seq))", "return seq")
    source.write_text(text, encoding="utf-8")
    broken = await TEST.check(project, given)

    assert (whole["ok"], whole["failed"], whole["error"]) == (True, 0, None)
    assert whole["passed"] > 150
    failed = {test for test, outcome in outcomes(broken).items() if outcome == "failed"}
    assert "toolz/tests/test_itertoolz.py::test_first" in failed
    assert len(failed) < 20


async def test_other_command_counts_as_one_test(project: Context) -> None:
    """Without a report its exit code is the outcome; unittest needs no package."""
    write(project, test_a="import unittest\nclass T(unittest.TestCase):\n  def test(self): 1 / 0\n")

    failing = await TEST.check(project, {"command": "python3 -m unittest -q test_a"})
    passing = await TEST.check(project, {"command": ["true"]})

    (case,) = failing["tests"]
    assert (case["id"], case["outcome"]) == ("python3 -m unittest -q test_a", "failed")
    assert (failing["per_test"], failing["failed"], failing["exit_code"]) == (False, 1, 1)
    assert (passing["ok"], passing["passed"], passing["error"]) == (True, 1, None)


async def test_hanging_test_is_named_with_its_line(project: Context, with_pytest: str) -> None:
    """A loop without an end is a common bug; the stack at the limit shows where it is."""
    write(project, shop=SHOP, test_a="import shop\ndef test_ok(): ...\ndef test_b(): shop.wait()\n")

    result = await TEST.check(
        project, {"command": "pytest", "packages": with_pytest, "seconds": 12}
    )

    (case,) = result["tests"]
    assert (case["id"], case["outcome"]) == ("test_a.py::test_b", "error")
    assert case["message"].startswith("stopped by its limit of time in wait, shop.py:")
    assert (result["stopped"], result["error"]["type"], result["ok"]) == ("time", "time", False)


async def test_file_that_does_not_parse_is_an_error_of_its_tests(
    project: Context, with_pytest: str
) -> None:
    """What a repair has to fix is data, also where no test could be run."""
    write(project, shop="def total(:\n", test_a="import shop\n", test_b="def test_b(): pass\n")

    result = await TEST.check(project, {"command": "pytest", "packages": with_pytest})

    (case,) = result["tests"]
    assert (case["id"], case["outcome"], case["file"]) == ("test_a.py", "error", "test_a.py")
    assert "SyntaxError" in case["message"]
    write(project, conftest="import no_such_module\n")
    result = await TEST.check(project, {"command": "pytest", "packages": with_pytest})
    assert (result["per_test"], result["failed"], result["ok"]) == (False, 1, False)
    assert "no_such_module" in result["stderr"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"command": "no-such-program -q"}, "no-such-program: not found"),
        ({"command": "python3 -S -m pytest"}, "pytest is missing"),
        ({"command": ""}, "Give the `command`"),
        ({"command": "pytest 'x"}, "not complete"),
        ({"command": "make test", "tests": ["a"]}, "is pytest itself"),
        ({"command": "pytest", "tests": ["--pdb"]}, "'--pdb' is not the id"),
        ({"command": "pytest", "folder": "no"}, "not a folder"),
        ({"command": "pytest", "folder": "../x"}, "leads out"),
        ({"command": "pytest", "environment": {"A=B": "x"}}, "cannot be a variable"),
    ],
)
async def test_command_that_cannot_run_says_why(
    project: Context, given: dict[str, Any], said: str
) -> None:
    """A mistake in a document is no failing test."""
    with pytest.raises(ToolFailed, match=said):
        await TEST.check(project, given)


@pytest.mark.parametrize(
    ("command", "tests", "said"),
    [
        ("pytest", [], "ran no test"),
        ("pytest", ["test_x.py::test_no"], "not found"),
        ("pytest --no-such-option", [], "no-such-option"),
    ],
)
async def test_command_that_runs_no_test_says_why(
    project: Context, with_pytest: str, command: str, tests: list[str], said: str
) -> None:
    """No test is not the same as tests that pass."""
    write(project, test_x="")

    with pytest.raises(ToolFailed, match=said):
        await TEST.check(project, {"command": command, "tests": tests, "packages": with_pytest})
