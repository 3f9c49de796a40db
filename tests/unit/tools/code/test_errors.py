"""Errors of programs, read from recorded output of real programs."""

from collections import Counter
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipecatapp.sandbox import Outcome
from pipecatapp.sandbox.output import Text
from pipecatapp.tools.code.errors import ProgramError, error_of, families
from pipecatapp.tools.code.errors.lines import Output, lines_of
from pipecatapp.tools.code.errors.parse import PARSERS
from pipecatapp.tools.code.run import ran
from tests.unit.tools.code.recordings.reading import Recording, recordings

RECORDED = recordings()
FAMILIES = Path(families.__path__[0])

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
GROUP = "Exception Group Traceback (most recent call last):"
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
        ("tea.rb:7: no tea\nlast words\n", ("exit", "no tea", "tea.rb", 7)),
        ("KeyboardInterrupt", ("exit", "KeyboardInterrupt", None, None)),
        ("", ("exit", "exit code 3", None, None)),
    ],
)
def test_error_is_read_out_of_what_was_printed(
    stderr: str, found: tuple[str, str, str | None, int | None]
) -> None:
    """A repair needs the place of the error, not a page of text."""
    error = error_of(stderr, exit_code=3, stopped=None)

    assert error is not None
    assert (error.type, error.message, error.file, error.line) == found


def test_program_that_ended_well_has_no_error_and_a_stopped_one_has_its_limit() -> None:
    """A warning is no error, and a program that was stopped had no time to tell one."""
    assert error_of(TRACEBACK, exit_code=0, stopped=None) is None
    stopped = error_of("", exit_code=None, stopped="memory")
    assert stopped is not None
    assert stopped.type == "memory"


@pytest.mark.parametrize("recording", RECORDED, ids=lambda recording: recording.name)
@pytest.mark.proves("002-27")
def test_recorded_output_gives_the_error_that_a_person_reads_in_it(recording: Recording) -> None:
    """A repair starts at the place, the type and the message; a wrong one repairs another line."""
    error = error_of(
        recording.stderr, stdout=recording.stdout, exit_code=recording.exit_code, stopped=None
    )

    assert error is not None
    assert plain(error) == recording.expected


def plain(error: ProgramError) -> dict[str, Any]:
    """The form of the recordings: a frame is `[file, line, symbol, own]`."""
    frames = [[frame.file, frame.line, frame.symbol, frame.own] for frame in error.frames]
    return {**error.model_dump(), "frames": frames}


@pytest.mark.proves("002-27")
def test_each_family_is_proved_by_enough_recordings() -> None:
    """Formats differ between versions and options; a few happy cases would prove little."""
    counts = Counter(recording.path.parent.name for recording in RECORDED)

    assert {path.stem for path in FAMILIES.glob("[a-z]*.py")} == set(counts)
    assert all(counts[family] >= 15 for family in ("python", "pytest", "node", "gcc"))
    assert all(count >= 4 for count in counts.values())


def test_signature_stays_when_lines_numbers_and_paths_change() -> None:
    """A fix is found again after edits above the error, on another machine, with other values."""
    moved = TRACEBACK.replace("line 3", "line 33").replace("/work", "/home/me/tea")
    first, second = (error_of(text, exit_code=1, stopped=None) for text in (TRACEBACK, moved))
    other = error_of(TRACEBACK.replace("in start", "in stop"), exit_code=1, stopped=None)

    assert first
    assert second
    assert other
    assert first.signature == second.signature == "ValueError: no: tea [start]"
    assert other.signature != first.signature


def test_groups_within_groups_are_read_to_a_depth() -> None:
    """Each level is a call of the parser, and too many of them would end the run."""
    text = "\n".join(f"{'| ' * depth}+ {GROUP}" for depth in range(1000))

    error = error_of(text, exit_code=1, stopped=None)

    assert error is not None
    assert error.type == "exit"


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, str]:
    """Recordings that are cut, interleaved line by line, or mixed with any text."""
    lines: list[str] = []
    for recording in draw(st.lists(st.sampled_from(RECORDED), min_size=1, max_size=3)):
        part = f"{recording.stdout}\n{recording.stderr}".split("\n")
        start = draw(st.integers(0, len(part)))
        part = part[start : draw(st.integers(start, len(part)))]
        cut = draw(st.integers(0, 40))
        part = draw(
            st.sampled_from(
                [part, part[::-1], part[::2], [x[1:] for x in part], [x[:cut] for x in part]]
            )
        )
        lines = [line for pair in zip_longest(lines, part, fillvalue="") for line in pair]
    lines.insert(draw(st.integers(0, len(lines))), draw(st.text()))
    return draw(st.sampled_from([("\n".join(lines), ""), ("", "\r\n".join(lines))]))


@given(damaged() | st.tuples(st.text(), st.text()), st.sampled_from([None, 1, 101, 139]))
@settings(max_examples=300, deadline=None)
def test_no_output_breaks_a_parser_or_loses_its_text(
    streams: tuple[str, str], exit_code: int | None
) -> None:
    """Programs print anything, and a person must still see all of it."""
    stdout, stderr = streams
    for parser in PARSERS:  # the first error ends the choice, so each is called for itself
        parser(Output(lines_of(stdout), lines_of(stderr)))
    result = ran(Outcome(exit_code, None, Text(stdout), Text(stderr), 0.1, {}))

    assert (result.stdout, result.stderr) == (stdout, stderr)
    assert result.error is not None
    assert result.error.signature
    assert ProgramError.model_validate_json(result.error.model_dump_json()) == result.error
