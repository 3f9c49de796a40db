"""Output without what a prompt has elsewhere."""

import pytest

from pipecatapp.tools.code.context.repeated import without_repeated
from pipecatapp.tools.code.errors import ProgramError, error_of

CODE = ["def check(candidate):", "    # Simple cases", "    assert candidate(1) == 2, 'no'", "}"]
PYTEST = """F                                                      [100%]
=================================== FAILURES ===================================
__________________________________ test_one ____________________________________

candidate = <function one>

    def check(candidate):
        # Simple cases
>       assert candidate(1) == 2, 'no'
E       AssertionError: no
E       assert 3 == 2
E        +  where 3 = candidate(1)

test_one.py:6: AssertionError
=========================== short test summary info ============================
FAILED test_one.py::test_one - AssertionError: no
1 failed in 0.04s"""
TRACEBACK = """Traceback (most recent call last):
  File "/work/one.py", line 3, in check
    assert candidate(1) == 2, 'no'
           ^^^^^^^^^^^^^^^^^
  File "/work/one.py", line 1, in other
    def check(candidate):
AssertionError: no"""


def error() -> ProgramError | None:
    return error_of("", exit_code=1, stopped=None, stdout=PYTEST)


def test_code_and_message_that_the_prompt_has_are_left_out() -> None:
    """What pytest says beside them stays: names, values, places and counts."""
    assert without_repeated(PYTEST, error(), CODE).splitlines() == [
        "F   [100%]",
        "=== FAILURES ===",
        "___ test_one ___",
        "candidate = <function one>",
        "test_one.py:6: AssertionError",
        "=== short test summary info ===",
        "FAILED test_one.py::test_one - AssertionError: no",
        "1 failed in 0.04s",
    ]


def test_line_with_a_marked_part_stays() -> None:
    """The mark says which part of the line failed."""
    kept = without_repeated(TRACEBACK, None, CODE)

    assert "    assert candidate(1) == 2, 'no'\n           ^^^" in kept
    assert "def check" not in kept


@pytest.mark.parametrize(
    "text", ["}", "total 3", "    a line that nothing else shows", ">>> x", "a-b  = c"]
)
def test_other_output_stays(text: str) -> None:
    """A program may print what happens to be a line of code."""
    assert without_repeated(text, None, CODE) == text
