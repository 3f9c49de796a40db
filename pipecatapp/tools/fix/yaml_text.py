"""Repair YAML that does not parse."""

import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import AliasEvent, CollectionStartEvent, Event, ScalarEvent
from ruamel.yaml.parser import ParserError

from pipecatapp.tools.fix.edits import CannotRepair, Edits, unfence
from pipecatapp.tools.fix.json_text import closing

REPAIRS: Final = 20
"""Changed lines of one text."""
LINES: Final = 3
"""Lines, up to that of an error of YAML, that may have the mistake."""
PARSED: Final = 500
"""Texts that are parsed for one repair, at most."""
WORDS: Final = ("yaml", "yml", "")
"""Words after a fence with YAML."""
ENTRY: Final = re.compile(r"^(\s*(?:- +)*[\w.-]+):( *)(.*?)(\r?\n?)$")
ITEM: Final = re.compile(r"^(\s*- +)(.*?)(\r?\n?)$")
NAME_ONLY: Final = re.compile(r"^(\s*(?:- +)*[\w.-]+)(\r?\n?)$")


@dataclass(frozen=True)
class Proposal:
    """A text with one line changed, or all tabs of indentation."""

    text: str
    reason: str
    rank: tuple[int, int]
    """The kind, the most certain first, and the distance from the line as it was."""


def repaired_yaml(text: str) -> Iterator[str]:
    """Yield texts with one line changed, or all tabs of indentation, that parse as YAML.

    Nothing for a text that parses already.
    """
    for one in _proposals(text, _problems(text)):
        if not _problems(one.text):
            yield one.text


def repair_yaml(text: str) -> Edits:
    """Repair a text that should be YAML; raises `CannotRepair`."""
    edits = Edits(text)
    if _is_in_prose(text) or (_problems(text) and re.search(r"^(```|~~~)", text, re.MULTILINE)):
        unfence(edits, WORDS)
    for _ in range(REPAIRS):
        problems = _problems(edits.text)
        if not problems:
            return edits
        chosen = _chosen(edits, problems)
        if chosen.rank == TABS:
            _each_line(edits, chosen)
        else:
            edits.become(chosen.text, chosen.reason)
    raise CannotRepair(f"It needs more than {REPAIRS} changes")


def _each_line(edits: Edits, chosen: Proposal) -> None:
    """Apply a proposal that changes several lines, each as one change."""
    offset = 0
    old = edits.text.splitlines(keepends=True)
    for line, new in zip(old, chosen.text.splitlines(keepends=True), strict=True):
        if line != new:
            end = offset + len(line) - len(line.lstrip(" \t"))
            edits.replace(offset, end, new[: len(new) - len(new.lstrip(" "))], chosen.reason)
        offset += len(new)


def _chosen(edits: Edits, problems: Sequence["Problem"]) -> Proposal:
    """Return the most certain proposal that parses, or else one that parses further."""
    first = problems[0]
    parsed: list[tuple[Proposal, object]] = []
    further: list[Proposal] = []
    proposals = sorted(_proposals(edits.text, problems), key=lambda one: one.rank)
    for one in islice(proposals, PARSED):
        if parsed and one.rank > parsed[0][0].rank:
            break
        left = _problems(one.text)
        if not left:
            parsed.append((one, _meaning(one.text)))
        elif (left[0].line, left[0].column) > (first.line, first.column):
            further.append(one)
    if parsed and all(meaning == parsed[0][1] for _, meaning in parsed):
        return parsed[0][0]
    if parsed or not further:
        raise CannotRepair(first.message, edits.line_at(_offset(edits.text, first.line)))
    return further[0]


def _offset(text: str, line: int) -> int:
    return sum(len(one) for one in text.splitlines(keepends=True)[:line])


@dataclass(frozen=True)
class Problem:
    """A line, from 0, at which YAML cannot be read, or where that part began."""

    line: int
    column: int
    message: str


def _problems(text: str) -> list[Problem]:
    """Return the places of the first error; none if the text parses."""
    try:
        _check_aliases(_events(text))
    except MarkedYAMLError as error:
        message = ". ".join(" ".join(one.split()) for one in (error.context, error.problem) if one)
        marks = (error.problem_mark, error.context_mark)
        return [Problem(mark.line, mark.column, message) for mark in marks if mark is not None] or [
            Problem(0, 0, message)
        ]
    except (YAMLError, RecursionError) as error:
        return [Problem(0, 0, " ".join(str(error).split())[:300])]
    return []


def _events(text: str) -> Iterable[Event]:
    events: Iterable[Event] = YAML(typ="safe", pure=True).parse(io.StringIO(text))
    return events


def _check_aliases(events: Iterable[Event]) -> None:
    """Raise `ParserError` for an alias without its anchor, as `*this*` is."""
    known: set[str] = set()
    for event in events:
        if isinstance(event, AliasEvent) and event.anchor not in known:
            message = f"There is no anchor {event.anchor}"
            raise ParserError(problem=message, problem_mark=event.start_mark)
        if isinstance(event, ScalarEvent | CollectionStartEvent) and event.anchor:
            known.add(event.anchor)


def _meaning(text: str) -> list[object]:
    """Return what a text says, for comparison."""
    return [
        (type(event), event.value, event.implicit, event.tag and str(event.tag))
        if isinstance(event, ScalarEvent)
        else type(event)
        for event in _events(text)
    ]


def _is_in_prose(text: str) -> bool:
    """Tell whether a text has a fence, and is one text without structure to YAML."""
    if not re.search(r"^(```|~~~)[ \t]*ya?ml\b", text, re.MULTILINE) or _problems(text):
        return False
    return not any(isinstance(event, CollectionStartEvent) for event in _events(text))


TABS: Final = (0, 0)


def _proposals(text: str, problems: Sequence[Problem]) -> Iterator[Proposal]:
    """Yield what a text with these problems may have been meant to be."""
    seen = {text}
    if problems and "\t" in text:
        expanded = re.sub(
            r"^[ \t]+", lambda found: found[0].expandtabs(2), text, flags=re.MULTILINE
        )
        if expanded not in seen:
            seen.add(expanded)
            yield Proposal(expanded, "tab replaced by two spaces", TABS)
    lines = text.splitlines(keepends=True)
    near = dict.fromkeys(at for one in problems for at in range(one.line, one.line - LINES, -1))
    for at in (at for at in near if 0 <= at < len(lines)):
        for new, reason, rank in _meant(lines, at):
            changed = "".join((*lines[:at], new, *lines[at + 1 :]))
            if changed not in seen:
                seen.add(changed)
                yield Proposal(changed, reason, rank)


Meant = tuple[str, str, tuple[int, int]]
"""A line, the reason and the rank."""


def _meant(lines: Sequence[str], at: int) -> Iterator[Meant]:
    """Yield what a line may have been meant to be."""
    old = lines[at]
    if entry := ENTRY.match(old):
        name, space, value, end = entry.groups()
        if value and not space:
            yield f"{name}: {value}{end}", "space after the colon added", (1, 0)
        for new, reason, rank in _scalars(value):
            yield f"{name}: {new}{end}", reason, rank
    elif item := ITEM.match(old):
        for new, reason, rank in _scalars(item[2]):
            yield f"{item[1]}{new}{item[3]}", reason, rank
    if name_only := NAME_ONLY.match(old):
        yield f"{name_only[1]}:{name_only[2]}", "missing colon added", (4, 0)
    yield from _indented(lines, at)


def _indented(lines: Sequence[str], at: int) -> Iterator[Meant]:
    """Yield a line with the indentation of the lines around it, or two spaces more."""
    old = lines[at]
    around = [one for one in (*reversed(lines[:at]), *lines[at + 1 : at + 2]) if one.strip()]
    width = len(old) - len(old.lstrip(" "))
    for other in around[:2]:
        indent = other[: len(other) - len(other.lstrip())]
        for new in (indent, f"{indent}  "):
            rank = (5, abs(len(new) - width))
            yield new + old.lstrip(" "), "indentation as of the lines around it", rank


def _scalars(value: str) -> Iterator[Meant]:
    """Yield a value with its quote closed, or in quotes."""
    for quote in ('"', "'"):
        if value.startswith(quote) and value.count(quote) == 1:
            yield f"{value}{quote}", "missing quote added", (2, 0)
            return
    if value.startswith("[") or (value.startswith("{") and not value.startswith("{{")):
        yield value + closing(value), "missing bracket added", (2, 0)
    elif value:
        yield json.dumps(value, ensure_ascii=False), "value put into quotes", (3, 0)
