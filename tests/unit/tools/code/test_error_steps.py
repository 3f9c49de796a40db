"""The parsers of errors need steps in proportion to the length of an output, whatever it says."""

import sys
from types import FrameType
from typing import Any, Final, SupportsIndex, overload

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipecatapp.tools.code.errors.lines import Output, lines_of
from pipecatapp.tools.code.errors.parse import PARSERS, Parser
from tests.unit.tools.code.recordings.reading import recordings

CODE: Final = "/tools/code/errors/"
MEGABYTE: Final = 1_000_000
LINES: Final = sorted({
    line
    for recording in recordings()
    for line in f"{recording.stdout}\n{recording.stderr}".split("\n")
})  # fmt: skip
"""Each line of the recordings, once."""
HEADS: Final = (
    "", " ", "\t", "Traceback (most recent call last):", '  File "a", line 1, in b',
    "  + Exception Group Traceback (most recent call last):", "  | ValueError: a", "E   a",
    "==== FAILURES ====", "____ a ____", "=" * 70, "-" * 70, "FAIL: a (b.C.a)", "not ok 1 - a",
    "  ---", "  error: |-", "Error: a", "    at a (b:1:1)", "a.ts(1,1): error TS1: a", "  a",
    "panic: a", "fatal error: a", "goroutine 1 [running]:", "--- FAIL: A (0.00s)",
    "    a.go:1: a", "=== RUN   A", "In file included from a:1,", "                 from a:1,",
    "a:1:1:   required from here", "==1==ERROR: AddressSanitizer: a", "F401 a", "ruff failed",
    "  Cause: a", "ERROR: ResolutionImpossible: a", "ERROR:  a", "LINE 1: a", "  error: a",
    "npm error code 1", "error: a", "error[E0001]: a", "error: linking with a", "1 | ^^^",
    "thread 'a' panicked at a:1:1:", "stack backtrace:", "   0: a", "Caused by:", "a: line 1: `a'",
)  # fmt: skip
"""Lines that make a parser look at the lines around them."""


class Counted(list[str]):
    """Lines that count each line that is copied from them."""

    copied = 0

    @overload
    def __getitem__(self, index: SupportsIndex) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> str | list[str]:
        found = super().__getitem__(index)
        if isinstance(found, str):
            return found
        Counted.copied += len(found)
        return Counted(found)


def steps(parser: Parser, lines: list[str]) -> int:
    """Count the lines of code that a parser runs, and the lines of output that it copies."""
    count, before = 0, sys.gettrace()
    Counted.copied = 0

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace if CODE in frame.f_code.co_filename else None

    sys.settrace(trace)
    try:
        parser(Output(Counted(lines), Counted()))
        parser(Output(Counted(), Counted(lines)))
    finally:
        sys.settrace(before)
    return count + Counted.copied


@given(st.lists(st.sampled_from(HEADS) | st.sampled_from(LINES), min_size=1, max_size=4))
@example(["not ok 1 - a", "  ---"])
@example(["not ok 1 - a", "-" * 70])
@example(["not ok 1 - a", "---"])
@example(["    not ok 1 - a", "  ---"])
@example(["error: a", "", "Caused by:"])
@example(["panic: a"])
@example(["  + Exception Group Traceback (most recent call last):"])
@settings(max_examples=12, deadline=None)
def test_twice_the_lines_need_twice_the_steps(block: list[str]) -> None:
    """Quadratic time would hold up every other run for minutes; look-ahead has a bound."""
    lines = (block * 200)[:200]
    for parser in PARSERS:
        once, twice = steps(parser, lines), steps(parser, lines * 2)
        assert twice <= 2.5 * once + 1000, parser.__module__


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.__module__.split(".")[-1])
def test_megabyte_of_lines_that_begin_something_is_read(parser: Parser) -> None:
    """A long output is no reason to give up or to end the run."""
    size = MEGABYTE // len(HEADS)
    many = "".join(f"{head}\n" * (size // (len(head) + 1)) for head in HEADS)
    wide = "\n".join(head * (size // max(1, len(head))) for head in HEADS)

    for text in (many, wide):
        lines = lines_of(text)
        assert sum(map(len, lines)) <= len(text)
        parser(Output(lines, []))
