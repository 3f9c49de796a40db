"""The page on the duration of the tests: it must show what the last runs took, and nothing else."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests import lanes
from tests.retry import RETRIED, first_errors
from tests.rules import tree


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What a run with two lanes leaves."""
    for name, seconds in (("check", 61), ("most", 600)):
        suite = ElementTree.Element("testsuite", tests="3")
        case = ElementTree.SubElement(suite, "testcase", classname="a", name="test_b[c]")
        if name == "most":
            ElementTree.SubElement(case, "failure", message="AssertionError: late\nmore")
        root = ElementTree.Element("testsuites")
        root.append(suite)
        ElementTree.ElementTree(root).write(tmp_path / f"{name}.xml")
        (tmp_path / f"{name}.seconds").write_text(f"{seconds}\n")
    return tmp_path


def test_page_has_the_lanes_of_both_kinds_of_run(folder: Path) -> None:
    """A warm run must not remove what a cold one has measured."""
    run = lanes.measured(folder, 700)

    text = lanes.page({"cold": run, "warm": run})

    assert "## Cold" in text
    assert "## Warm" in text
    assert text.count(f"| `most` | {lanes.ABOUT['most']} | 3 | 600 |") == 2
    assert "12 minutes (limit: 30)" in text


def test_run_with_lanes_that_are_gone_is_left_out(folder: Path) -> None:
    """The first run after lanes were renamed must not fail at its end."""
    run = lanes.measured(folder, 700)
    today = run | {"lanes": dict.fromkeys(lanes.ABOUT, run["lanes"]["most"])}

    assert lanes.comparable({"cold": run, "warm": today}) == {"warm": today}


def test_every_lane_of_continuous_integration_is_described() -> None:
    """A lane that the page does not know would be missing from it."""
    text = (tree.ROOT / ".ci" / "run").read_text(encoding="utf-8")

    assert set(re.findall(r"(?m)^    \[(\w+)\]=", text)) == set(lanes.ABOUT)


def test_closing_lines_name_each_retried_test_with_its_first_error(folder: Path) -> None:
    """A flaky test is a bug of the suite, so the end of a green run shows it."""
    errors = first_errors([folder / "check.xml", folder / "most.xml"])
    (folder / RETRIED).write_text("x")

    lines = lanes.closing(lanes.measured(folder, 700), [f"a.py::test_b[c]: {errors['test_b[c]']}"])

    assert lines == [
        "check: 3 tests in 61 s",
        "most: 3 tests in 600 s",
        "All lanes: 700 s",
        "Passed only when retried alone, with the first error:",
        "a.py::test_b[c]: AssertionError: late",
    ]
