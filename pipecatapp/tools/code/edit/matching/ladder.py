"""The one ladder that finds the lines of a file an edit means: exact, then unique up to white
space, then the definition that its heading names, then refused. Nothing is ever matched closer by
likeness: a wrongly applied edit is worse than another request to the model.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pipecatapp.tools.code.edit.content import Edit
from pipecatapp.tools.code.edit.matching.indentation import foreign, reindented
from pipecatapp.tools.code.edit.reading.blocks import Hunk
from pipecatapp.tools.code.edit.refusal import Candidate, Refused

Rung = Literal["exact", "whitespace", "symbol"]
SHOWN: Final = 5
"""Candidates of a refusal, and lines of each."""
HEADING: Final = 40
"""Characters of a heading that count; git cuts it at 80 bytes."""


@dataclass(frozen=True)
class Place:
    """Where the lines of a hunk are in the file, counted from 0, and how they were found."""

    start: int
    rung: Rung
    added: list[str]
    """The new lines with the file's indentation."""


def locate(lines: Sequence[str], hunk: Hunk) -> Place:
    """Find the place of a hunk. Raises `Refused` with the candidates."""
    hunk = trimmed(hunk)
    search = hunk.search
    if not any(line.strip() for line in search):
        raise Refused("empty_search", "The edit names no line of the file to change.", at=hunk.at)
    plain, wanted = [squeezed(line) for line in lines], [squeezed(line) for line in search]
    exact, alike = occurrences(lines, search), occurrences(plain, wanted)
    if not alike:
        raise _not_found(lines, hunk)
    rung: Rung = "exact" if exact else "whitespace"
    if len(alike) == 1:
        alike = _confirmed(lines, hunk, alike[0], nearly(plain, wanted, hunk))
    else:
        # A line whose indentation the model got wrong may be equal to another line, so an exact
        # match that is not the only one up to white space is not certain either.
        alike, rung = _by_heading(lines, hunk, alike), "symbol"
    if len(alike) != 1:
        found = [candidate(lines, start, len(search)) for start in alike[:SHOWN]]
        raise Refused(
            "ambiguous",
            f"{len(alike)} places of the file fit: add lines around the change to tell them apart.",
            found,
            hunk.at,
        )
    (start,) = alike
    return Place(start, rung, _added(lines, hunk, start))


def edits_of(hunk: Hunk, place: Place, *, blank: bool = False) -> list[Edit]:
    """The changed lines of a hunk at its place; its other lines are left as the file has them.
    `blank` says that the place counts the blank lines at the ends of the hunk.
    """
    hunk = hunk if blank else trimmed(hunk)
    edits: list[Edit] = []
    added = iter(place.added)
    line, start, new = place.start, place.start, list[str]()
    for sign, _ in [*hunk.lines, (" ", "")]:
        if sign == " ":
            if new or line > start:
                edits.append(Edit(start, line, tuple(new)))
            line, new = line + 1, []
            start = line
        elif sign == "-":
            line += 1
        else:
            new.append(next(added))
    return edits


def trimmed(hunk: Hunk) -> Hunk:
    """Leave out blank lines that are kept at either end: models add them."""
    first, last = 0, len(hunk.lines)
    while first < last and hunk.lines[first][0] == " " and not hunk.lines[first][1].strip():
        first += 1
    while last > first and hunk.lines[last - 1][0] == " " and not hunk.lines[last - 1][1].strip():
        last -= 1
    return Hunk(
        hunk.lines[first:last], hunk.at, hunk.heading,
        None if hunk.start is None else hunk.start + first, hunk.final_newline, hunk.stripped,
    )  # fmt: skip


def occurrences(lines: Sequence[str], search: Sequence[str]) -> list[int]:
    """Every place where these lines follow each other."""
    size = len(search)
    return [
        start
        for start in range(len(lines) - size + 1)
        if lines[start] == search[0] and list(lines[start : start + size]) == list(search)
    ]


def nearly(lines: Sequence[str], search: Sequence[str], hunk: Hunk) -> list[int]:
    """Places that differ from the search in one kept line. The edit may have meant one of them
    before that line was changed, so another place is not certain although it is the only one.
    """
    kept = [sign == " " for sign, _ in hunk.lines if sign != "+"]
    size = len(search)
    found = []
    for start in range(len(lines) - size + 1) if sum(map(bool, search)) > 2 else ():
        differing = 0
        for offset in range(size):
            if lines[start + offset] != search[offset]:
                differing += 1 if kept[offset] and search[offset] else 2
                if differing > 1:
                    break
        if differing == 1:
            found.append(start)
    return found


def squeezed(line: str) -> str:
    """The line with each run of white space as one space, and none at its ends."""
    return " ".join(line.split())


def heading_of(lines: Sequence[str], start: int) -> str:
    """The heading that git gives a hunk that begins here: the last line before it that begins with
    a letter, `_` or `$`.
    """
    for line in reversed(lines[:start]):
        if line and (line[0].isalpha() or line[0] in "_$"):
            return line.strip()
    return ""


def candidate(lines: Sequence[str], start: int, size: int) -> Candidate:
    """A place of the file to show, with the line before it."""
    first = max(0, start - 1)
    shown = lines[first : first + min(size + 2, SHOWN)]
    return Candidate(line=start + 1, text="\n".join(shown))


def _confirmed(lines: Sequence[str], hunk: Hunk, start: int, near: list[int]) -> list[int]:
    """Return the place, with the nearly equal places if the heading does not rule them out.

    Raises `Refused` where the place lies below another heading.
    """
    heading = hunk.heading.strip()[:HEADING]
    named = [n for n, line in enumerate(lines) if heading and line.strip()[:HEADING] == heading]
    if not named:
        return sorted([start, *near])
    own = heading_of(lines, start)[:HEADING] == heading
    outer = any(not lines[n][0].isspace() for n in named)
    if (outer and not own) or min(named) > start + len(hunk.search):
        raise Refused(
            "not_found",
            f"The lines are in the file, but not below {heading!r}: correct the heading.",
            [candidate(lines, start, len(hunk.search))],
            hunk.at,
        )
    same = [one for one in near if heading_of(lines, one)[:HEADING] == heading]
    return sorted([start, *(same if own else near)])


def _by_heading(lines: Sequence[str], hunk: Hunk, starts: list[int]) -> list[int]:
    heading = hunk.heading.strip()[:HEADING]
    if not heading:
        return starts
    return [start for start in starts if heading_of(lines, start)[:HEADING] == heading] or starts


def _added(lines: Sequence[str], hunk: Hunk, start: int) -> list[str]:
    search = hunk.search
    found = lines[start : start + len(search)]
    if list(found) == search:
        if not foreign(lines, hunk.added):
            return hunk.added
        raise _indentation(lines, hunk, start)
    leads = next((sign for sign, _ in hunk.lines if sign != "-"), "") == "+"
    added = reindented(
        list(zip(search, found, strict=True)),
        hunk.added,
        first_stripped=hunk.stripped,
        leads=leads,
    )
    if added is None or foreign(lines, added):
        raise _indentation(lines, hunk, start)
    return added


def _indentation(lines: Sequence[str], hunk: Hunk, start: int) -> Refused:
    return Refused(
        "indentation",
        "The lines are in the file with another indentation, and it is not certain what that means"
        " for the new lines: indent all lines exactly as in the file.",
        [candidate(lines, start, len(hunk.search))],
        hunk.at,
    )


def _not_found(lines: Sequence[str], hunk: Hunk) -> Refused:
    """Show the places that share the most lines with the edit; they are never used."""
    places: Mapping[str, list[int]] = defaultdict(list)
    for number, line in enumerate(lines):
        places[squeezed(line)].append(number)
    score: dict[int, int] = defaultdict(int)
    for offset, line in enumerate(hunk.search):
        if len(line.strip()) > 2:
            for number in places.get(squeezed(line), ())[:SHOWN]:
                score[max(0, number - offset)] += 1
    best = sorted(score, key=lambda start: (-score[start], start))[:2]
    return Refused(
        "not_found",
        "The file does not have these lines: copy the lines to change exactly as they are now.",
        [candidate(lines, start, len(hunk.search)) for start in best],
        hunk.at,
    )
