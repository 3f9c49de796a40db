"""Errors of programs, as they print them."""

import pytest

from pipecatapp.tools.code.errors import error_of

TRACEBACK = """\
warning: old
Traceback (most recent call last):
  File "/work/main.py", line 9, in <module>
    start()
  File "/work/tea.py", line 3, in start
    raise ValueError("no: tea")
ValueError: no: tea
"""
SYNTAX = """\
  File "/work/main.py", line 2
    if tea
          ^
SyntaxError: expected ':'
"""
GCC = """\
main.c: In function 'main':
main.c:3:5: warning: unused variable 'x'
main.c:4:9: error: 'tea' undeclared
main.c:9:1: note: declared here
"""


@pytest.mark.parametrize(
    ("stderr", "found"),
    [
        (TRACEBACK, ("ValueError", "no: tea", "/work/tea.py", 3)),
        (SYNTAX, ("SyntaxError", "expected ':'", "/work/main.py", 2)),
        (GCC, ("error", "'tea' undeclared", "main.c", 4)),
        ("a.js:7\n\nthrow\nlast words\n", ("exit", "last words", None, None)),
        ("KeyboardInterrupt", ("exit", "KeyboardInterrupt", None, None)),
        ("", ("exit", "exit code 3", None, None)),
    ],
)
def test_error_is_read_out_of_what_was_printed(
    stderr: str, found: tuple[str, str, str | None, int | None]
) -> None:
    """Who mends a program needs its place, not a page of text."""
    error = error_of(stderr, exit_code=3, stopped=None)

    assert error is not None
    assert (error.type, error.message, error.file, error.line) == found


def test_program_that_ended_well_has_no_error_and_a_stopped_one_has_its_limit() -> None:
    """A warning is no error, and a program that was stopped had no time to tell one."""
    assert error_of(TRACEBACK, exit_code=0, stopped=None) is None
    stopped = error_of("", exit_code=None, stopped="memory")
    assert stopped is not None
    assert stopped.type == "memory"
