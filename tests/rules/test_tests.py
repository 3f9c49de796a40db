"""Rules for the tests themselves."""

import ast
import re
from collections.abc import Iterator

from tests import extended, proofs
from tests.rules import tree

FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
ASSERTING = {"raises", "fail", "warns", "expect", "check_call"}


def test_every_test_says_why_it_matters() -> None:
    """A failing test is read by somebody who did not write it."""
    silent = [place for place, test in _tests() if not ast.get_docstring(test)]

    assert silent == []


def test_every_test_can_fail() -> None:
    """A test that asserts nothing proves nothing."""
    toothless = [place for place, test in _tests() if not _asserts(test)]

    assert toothless == []


def test_mocks_stay_within_their_budget() -> None:
    """Real parts are tested: at most 5 patches in 1,000 lines of tests."""
    lines = patches = 0
    for file in tree.python("tests"):
        text = tree.text(file)
        lines += text.count("\n")
        patches += len(re.findall(r"\bMock\(|\bpatch\(|mocker\.|monkeypatch\.setattr", text))

    assert patches <= 5 * lines / 1000


def test_every_marker_names_a_known_requirement() -> None:
    """A proof of an unknown number would be a proof of nothing."""
    marked = {
        (place, str(number))
        for place, test in _tests()
        for number in _proved_numbers(test)
        if number not in proofs.requirements()
    }

    assert marked == set()


def test_committed_proof_table_names_the_marked_tests() -> None:
    """The table records a run: a deleted test proves nothing, and a new one has to be recorded."""
    marked = {
        (f"{place.partition(':')[0]}::{test.name}", number)
        for place, test in _tests()
        for number in _proved_numbers(test)
    }
    table = {(test, number) for number, results in proofs.committed().items() for test in results}

    assert marked ^ table == set(), "Run `make proofs`."


def test_committed_page_follows_from_the_proof_table() -> None:
    """The proof page claims exactly what the table holds."""
    table = proofs.committed()

    assert proofs.PAGE.read_text(encoding="utf-8") == proofs.page(table)


def test_every_record_of_the_extended_ring_is_green_and_current() -> None:
    """What continuous integration does not run must have been run since it was changed last."""
    assert extended.stale(extended.records()) == [], "Run `make test-extended NAME` for each."


def _tests() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for file in tree.python("tests"):
        if file.name.startswith("test_"):
            for node in ast.walk(ast.parse(tree.text(file))):
                if isinstance(node, FUNCTION) and node.name.startswith("test_"):
                    yield f"{file}:{node.lineno}", node


def _asserts(test: ast.AST) -> bool:
    for node in ast.walk(test):
        if isinstance(node, ast.Assert):
            return True
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name in ASSERTING or name.startswith(("assert_", "expect_")):
                return True
    return False


def _proved_numbers(test: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    return [
        str(argument.value)
        for mark in test.decorator_list
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.proves"
        for argument in mark.args
        if isinstance(argument, ast.Constant)
    ]
