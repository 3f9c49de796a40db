"""`hearth code fix` on bugs that real packages had, with the change that their authors made."""

import json
from pathlib import Path

import pytest

from tests.integration.agent.code.conftest import git
from tests.integration.agent.conftest import House, Json
from tests.integration.agent.test_cli import Hearth
from tests.support.projects.bugs import Bug, repository
from tests.support.projects.sdists import sdists
from tests.support.projects.wheels import PYTEST, wheels

EXTENDED_INPUTS = [
    "tests/support/projects/bugs.py",
    "tests/support/projects/sdists.*",
    "pipecatapp/workflows/fix-bug.yaml",
    "pipecatapp/tools/code/context/*",
    "pipecatapp/tools/code/edit/*",
    "pipecatapp/tools/code/testing/*",
]
BUGS = [
    Bug(
        "xmltodict", "0.13.0", "0.14.1",
        "tests/test_dicttoxml.py::DictToXMLTestCase::test_pretty_print_with_int_indent",
        {"xmltodict.py": ("_emit",)},
    ),
    Bug(
        "click", "8.1.2", "8.1.3",
        "tests/test_options.py::test_invalid_flag_combinations",
        {"src/click/core.py": ("Option.__init__",)},
    ),
    Bug(
        "click", "8.1.7", "8.1.8",
        "tests/test_options.py::test_show_default_with_empty_string",
        {"src/click/core.py": ("Option.get_help_record",)},
    ),
    Bug(
        "humanize", "4.2.0", "4.2.1",
        "tests/test_number.py::test_intcomma",
        {"src/humanize/number.py": ("intcomma",)},
        ("tests/test_number.py", "tests/test_filesize.py"),
    ),
    Bug(
        "humanize", "4.12.2", "4.12.3",
        "tests/test_filesize.py::test_naturalsize",
        {"src/humanize/filesize.py": ("naturalsize",)},
        ("tests/test_number.py", "tests/test_filesize.py"),
    ),
    Bug(
        "Markdown", "3.4.1", "3.4.2",
        "tests/test_syntax/inline/test_emphasis.py::TestNotEmphasis",
        {"markdown/inlinepatterns.py": ("NOT_STRONG_RE",)},
        ("tests/test_syntax",),
    ),
    Bug(
        "parse", "1.20.0", "1.20.1",
        "tests/test_parse.py::test_datetime_with_various_subsecond_precision",
        {"parse.py": ("dt_format_to_regex",)},
    ),
    Bug(
        "pathspec", "0.12.0", "0.12.1",
        "tests/test_03_pathspec.py::PathSpecTest::test_01_match_file_3_unmatch",
        {"pathspec/pathspec.py": ("PathSpec.match_file",)},
    ),
    Bug(
        "sqlparse", "0.4.2", "0.4.3",
        "tests/test_utils.py::test_remove_quotes",
        {"sqlparse/utils.py": ("remove_quotes",)},
    ),
    Bug(
        "sqlparse", "0.5.1", "0.5.2",
        "tests/test_format.py::TestFormat::test_strip_comments_preserves_hint",
        {"sqlparse/filters/others.py": ("StripCommentsFilter._process",)},
    ),
    Bug(
        "tabulate", "0.8.8", "0.8.9",
        "test/test_regression.py::"
        "test_string_with_comma_between_digits_without_floatfmt_grouping_option",
        {"tabulate.py": ("_isnumber",)},
        ("test",),
    ),
]  # fmt: skip


@pytest.fixture(autouse=True)
def pinned_wheels(monkeypatch: pytest.MonkeyPatch) -> None:
    """code.install finds the packages of the tests in the test cache, and nowhere else."""
    sdists()  # with a network, the first time
    folder = wheels()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))


def assert_fixed(bug: Bug, hearth: Hearth, house: House, folder: Path) -> None:
    """Run `hearth code fix` and check the branch, the tests and the changed files."""
    repo, answer = repository(bug, folder)
    house.model.when("").say(answer)
    words = ["--check", bug.check, "--repo", str(repo), "--package", PYTEST, "--json"]

    done = hearth("code", "fix", bug.command, *words)

    assert done.exit_code == 0, done.output
    run: Json = json.loads(done.output)
    branch = run["outputs"]["branch"]
    assert git(repo, "diff", "--name-only", f"main..{branch}").split() == sorted(bug.fix)
    assert git(repo, "rev-list", "--count", f"main..{branch}") == "1\n"
    assert len(house.model.requests) == 1
    with house.client() as client:
        steps = client.get(f"/api/runs/{run['run']}").json()["steps"]
    outputs = {step["path"]: step["output"] for step in steps}
    attempt = "rounds[0]/attempts[0]"
    assert outputs["before"]["failed"] >= 1
    assert (outputs[f"{attempt}/after"]["ok"], outputs[f"{attempt}/after"]["failed"]) == (True, 0)
    before, after = passed(outputs["baseline"]), passed(outputs[f"{attempt}/checked"])
    assert before < after
    assert len(before) > 10


def passed(tested: Json) -> set[str]:
    """The tests that passed."""
    return {case["id"] for case in tested["tests"] if case["outcome"] == "passed"}


@pytest.mark.extended
@pytest.mark.parametrize("bug", BUGS[1:], ids=str)
def test_real_bug_is_fixed_on_a_branch(
    bug: Bug, hearth: Hearth, empty_house: House, tmp_path: Path
) -> None:
    """The failing test passes, tests that passed still do, and only the fixed file changes."""
    assert_fixed(bug, hearth, empty_house, tmp_path)


def test_one_real_bug_is_fixed_on_a_branch(
    hearth: Hearth, empty_house: House, tmp_path: Path
) -> None:
    """The quickest of them is part of every run."""
    assert_fixed(BUGS[0], hearth, empty_house, tmp_path)
