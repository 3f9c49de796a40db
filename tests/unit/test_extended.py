"""The extended ring: a test that continuous integration leaves out needs a record that holds."""

import ast
import datetime
from itertools import pairwise

import pytest

from tests import extended

TEST = next(iter(extended.declared()))
INPUTS = extended.digest(tuple(extended.declared()[TEST]))
GREEN: extended.Record = {
    "inputs": INPUTS, "date": "2026-11-24", "seconds": 1.0, "result": "passed",
}  # fmt: skip
MODULE = """
import pytest
EXTENDED_INPUTS = ["a", "b/*"]
{pytestmark}

@pytest.mark.extended
def test_one(): ...

def test_two(): ...
"""


def lines(record: extended.Record | None) -> list[str]:
    """What is wrong with the records of one test."""
    known = {} if record is None else {TEST: record}
    return [line.partition(": ")[2] for line in extended.stale(known) if line.startswith(TEST)]


def test_record_of_the_present_inputs_counts() -> None:
    """A test whose files have not changed need not be run again."""
    assert lines(GREEN) == []


@pytest.mark.parametrize(
    ("record", "line"),
    [
        (None, "no record"),
        (GREEN | {"result": "failed"}, "failed on 2026-11-24"),
        (GREEN | {"inputs": "0"}, "its inputs have changed since 2026-11-24"),
    ],
)
def test_missing_red_and_stale_records_are_named(record: extended.Record | None, line: str) -> None:
    """A test that nobody has run since a change proves nothing about it."""
    assert lines(record) == [line]


def test_record_of_a_test_that_is_gone_is_named() -> None:
    """The file would otherwise claim what nothing shows."""
    assert "tests/gone.py::test_x: no such test" in extended.stale({"tests/gone.py::test_x": GREEN})


def test_each_test_has_its_turn() -> None:
    """Rotation keeps records honest only if it reaches every test."""
    days = [datetime.date(2026, 11, day) for day in range(1, 7)]

    turns = [extended.turn(["c", "a", "b"], day) for day in days]

    assert set(turns[:3]) == {"a", "b", "c"}
    assert turns[:3] == turns[3:]
    assert all(one != other for one, other in pairwise(turns))
    assert extended.turn([], days[0]) is None


def test_glob_that_matches_nothing_is_an_error() -> None:
    """A renamed folder would otherwise never make a record stale again."""
    with pytest.raises(LookupError, match="no file matches 'nowhere/"):
        extended.digest(("nowhere/*",))


@pytest.mark.parametrize(
    ("pytestmark", "marked"),
    [("", ["test_one"]), ("pytestmark = [pytest.mark.extended]", ["test_one", "test_two"])],
)
def test_marks_of_functions_and_modules_are_found(pytestmark: str, marked: list[str]) -> None:
    """A test that is left out and not found here would be run by nobody."""
    module = ast.parse(MODULE.format(pytestmark=pytestmark))

    assert list(extended._marked(module)) == marked


def test_test_that_takes_long_has_no_turn_in_continuous_integration() -> None:
    """Compiling the engines for graphics cards would take as long as all other tests."""
    long = GREEN | {"seconds": extended.LONGEST + 1}
    known = {"short.py::one": GREEN, "long.py::one": long, "long.py::other": GREEN}

    assert extended.short(known) == ["short.py::one"]
