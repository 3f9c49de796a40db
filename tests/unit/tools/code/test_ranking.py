"""The order of suspicious functions, on traces as tests leave them."""

from pipecatapp.tools.code.localise.functions import Function, Functions
from pipecatapp.tools.code.localise.ranking import MOST, rank
from pipecatapp.tools.code.localise.trace import Trace

A, B, C, D = (Function("m.py", at, at + 9, name) for at, name in
              ((1, "a"), (11, "K.to_b"), (21, "c"), (31, "d")))  # fmt: skip
OTHER = Function("shop.py", 1, 9, "e")
FUNCTIONS = Functions({"m.py": [A, B, C, D], "shop.py": [OTHER]}, {"m.py": 50, "shop.py": 9})


def trace(test: str, *lines: int, frames: tuple[int, ...] = ()) -> Trace:
    """A trace of lines of one file; a frame makes it a failing test."""
    return Trace(
        test=f"tests/test_x.py::{test}",
        passed=not frames,
        lines=frozenset(("m.py", line) for line in lines),
        frames=tuple(("m.py", line) for line in frames),
    )


def shares(*scores: float) -> list[float]:
    """Scores as parts of the most that a function can have."""
    return [round(score / MOST, 4) for score in scores]


def test_line_of_the_failing_test_alone_beats_a_function_that_all_call() -> None:
    """Ochiai's measure by hand: 1/sqrt(1*1), 1/sqrt(1*2) and 1/sqrt(1*11)."""
    failing = [trace("t", 1, 2, 11, 21, 31)]
    passing = [trace("p", 1, 11, 31), trace("q", 1, 31), *[trace("r", 31)] * 8]

    ranked = rank(failing, passing, FUNCTIONS)

    scores = shares(1, 1, 0.7071, 0.3015)
    assert ranked == list(zip([A, C, B, D], scores, strict=True))


def test_traceback_and_names_count_beside_the_measure() -> None:
    """Each of them by its weight; a name counts by its share of the words of the test's name."""
    failing = [trace("test_x", 1, 11, 21, 31, frames=(21,))]
    assert rank(failing, [], FUNCTIONS)[:2] == [(C, *shares(1.2)), (A, *shares(1))]

    failing = [trace("TestK::test_to_b[d]", 1, 11, 21, 31)]
    named = 1 + 0.2 * 2 / 3
    assert rank(failing, [], FUNCTIONS)[:2] == [(B, *shares(named)), (A, *shares(1))]

    both = frozenset({("m.py", 1), ("shop.py", 1)})
    failing = [Trace("tests/test_shop.py::test_x", passed=False, lines=both, frames=())]
    assert rank(failing, [], FUNCTIONS) == [(OTHER, *shares(1.3)), (A, *shares(1))]


def test_depth_then_use_by_passing_tests_decide_between_equals() -> None:
    """Deterministic to the end: file and line come last."""
    failing = [trace("test_x", 1, 11, 21, 31, frames=(21, 1))]
    assert [one for one, _ in rank(failing, [], FUNCTIONS)] == [A, C, B, D]

    failing, passing = [trace("test_x", 1, 2, 11, 12)], [trace("p", 11)]
    assert [one for one, _ in rank(failing, passing, FUNCTIONS)] == [B, A]


def test_code_outside_of_functions_counts_if_it_is_in_the_traceback() -> None:
    """An error while a module is imported has no function and no lines of a test."""
    failing = [trace("t", frames=(45, 31))]

    ranked = rank(failing, [], FUNCTIONS)

    module = Function("m.py", 1, 50, "<module>")
    assert ranked == [(D, *shares(0.2)), (module, *shares(0.2))]
