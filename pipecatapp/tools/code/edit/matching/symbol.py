"""Replacing a whole definition by its qualified name."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pipecatapp.tools.code.edit.content import Edit
from pipecatapp.tools.code.edit.matching.indentation import leading
from pipecatapp.tools.code.edit.matching.strings import shifted
from pipecatapp.tools.code.edit.reading.blocks import SymbolEdit
from pipecatapp.tools.code.edit.refusal import Candidate, Refused
from pipecatapp.tools.code.symbols.definition import Definition

COMMENTS: Final = ("#", "//", "/*", "*", "--")
ANNOTATIONS: Final = ("@", "#[", "[")
SHOWN: Final = 10
LAST: Final = re.compile(r".*\}\s*[;,]?\s*")
"""The last line of a definition of other languages than Python."""


@dataclass(frozen=True)
class Source:
    """A definition as an answer has it, without blank lines around it."""

    lines: list[str]
    definition: Definition


def strip_blank(lines: Sequence[str]) -> list[str]:
    """The lines without blank ones at either end."""
    full = [number for number, line in enumerate(lines) if line.strip()]
    return list(lines[full[0] : full[-1] + 1]) if full else []


def replace_symbol(
    lines: Sequence[str], known: Sequence[Definition], block: SymbolEdit,
    given: Sequence[Definition], *, python: bool,
) -> Edit:  # fmt: skip
    """The edit that replaces a definition of a file. `known` are the definitions of the file,
    `given` those of the block's source, without blank lines at its ends. Raises `Refused`.
    """
    old = _find(known, block)
    new = Source(strip_blank(block.lines), _only(given, old, block))
    _check_alone(known, old, lines, block)
    if not python:
        _check_braces(lines[old.start - 1 : old.end], block)
        _check_braces(new.lines[new.definition.start - 1 : new.definition.end], block)
    if _annotated(lines, old) and not _annotated(new.lines, new.definition):
        raise Refused(
            "wrong_symbol",
            f"{block.symbol} has decorators or annotations that the answer leaves out: write them,"
            " or remove them by a SEARCH/REPLACE block.",
            [_shown(lines, old)],
            block.at,
        )
    start, end = old.start - 1, old.end or 0
    body = _indented(lines[start:end], new, block, python=python)
    head = _head(lines[:start], new, block)
    tail = _tail(lines[end:], leading(lines[start]), new, block)
    body = body[len(new.lines[: new.definition.start - 1]) - head : len(body) - tail]
    return Edit(start, end, tuple(_closed(lines[end - 1], body)))


def _find(known: Sequence[Definition], block: SymbolEdit) -> Definition:
    wanted = block.symbol.replace("::", ".")
    found = [one for one in known if one.qualified == wanted]
    if len(found) > 1:
        shown = [Candidate(line=one.start, text=one.qualified) for one in found]
        raise Refused(
            "ambiguous",
            f"{block.path} defines {block.symbol} {len(found)} times: change it by a SEARCH/REPLACE"
            " block.",
            shown,
            block.at,
        )
    if not found:
        name = wanted.rpartition(".")[2]
        near = [one for one in known if one.name == name] or list(known)
        shown = [Candidate(line=one.start, text=one.qualified) for one in near[:SHOWN]]
        raise Refused(
            "no_symbol", f"{block.path} does not define {block.symbol}.", shown, block.at
        )  # fmt: skip
    if found[0].end is None:
        raise Refused(
            "no_span",
            "Where this definition ends is not known for its language: use a SEARCH/REPLACE block.",
            at=block.at,
        )
    return found[0]


def _only(given: Sequence[Definition], old: Definition, block: SymbolEdit) -> Definition:
    """The one outermost definition of the source; it has the name and the kind of the old one."""
    outer = [one for one in given if not any(_around(two, one) for two in given)]
    same = [one for one in outer if one.name == old.name and _kind(one) == _kind(old)]
    if len(outer) != 1 or not same or same[0].end is None:
        names = ", ".join(one.qualified for one in outer) or "no definition"
        raise Refused(
            "wrong_symbol",
            f"The source of {block.symbol} has to be that definition alone, and is {names}.",
            at=block.at,
        )
    return same[0]


def _kind(one: Definition) -> str:
    return "function" if one.kind == "method" else one.kind


def _around(outer: Definition, inner: Definition) -> bool:
    end = outer.end or outer.start
    return outer is not inner and outer.start <= inner.start and (inner.end or inner.start) <= end


def _check_alone(
    known: Sequence[Definition], old: Definition, lines: Sequence[str], block: SymbolEdit
) -> None:
    """Refuse a definition that shares its first or last line with another one."""
    start, end = old.start, old.end or 0
    for one in known:
        last = one.end or one.start
        if one is old or _around(one, old) or _around(old, one) or last < start or one.start > end:
            continue
        raise Refused(
            "ambiguous",
            f"{block.symbol} shares a line with {one.qualified}.",
            [_shown(lines, old)],
            block.at,
        )


def _check_braces(part: Sequence[str], block: SymbolEdit) -> None:
    """Refuse a part that is not one balanced block: ctags reads no preprocessor."""
    text = "\n".join(part)
    if text.count("{") != text.count("}") or not LAST.fullmatch(part[-1]):
        raise Refused(
            "no_span",
            f"It is not certain where {block.symbol} ends: use a SEARCH/REPLACE block.",
            at=block.at,
        )


def _annotated(lines: Sequence[str], one: Definition) -> bool:
    return any(line.strip().startswith(ANNOTATIONS) for line in lines[one.start - 1 : one.line - 1])


def _shown(lines: Sequence[str], one: Definition) -> Candidate:
    return Candidate(line=one.start, text="\n".join(lines[one.start - 1 : one.start + 4]))


def _indented(
    old: Sequence[str], new: Source, block: SymbolEdit, *, python: bool
) -> list[str]:  # fmt: skip
    """The source with the indentation of the definition that it replaces."""
    mine, file = leading(new.lines[new.definition.start - 1]), leading(old[0])
    kinds = [{mark for line in lines for mark in leading(line)} for lines in (old, new.lines)]
    if len(old) > 1 and kinds[0] and kinds[1] and kinds[0] != kinds[1]:
        raise Refused("indentation", "The file indents with tabs or spaces otherwise.", at=block.at)
    if mine == file:
        return new.lines
    result = shifted(new.lines, mine, file, "\n".join(old), python=python)
    if result is None:
        raise Refused(
            "indentation",
            f"Indent {block.symbol} as it is in the file: it contains a text of several lines.",
            at=block.at,
        )
    return result


def _head(above: Sequence[str], new: Source, block: SymbolEdit) -> int:
    """How many comment lines before the definition are new; those of the file are not repeated."""
    comments = new.lines[: new.definition.start - 1]
    if not comments:
        return 0
    if not all(line.strip().startswith(COMMENTS) for line in comments):
        raise _extra(block)
    there = [line.strip() for line in above[-len(comments) :]]
    if there == [line.strip() for line in comments]:
        return 0
    if there and there[-1].startswith(COMMENTS):
        raise Refused(
            "ambiguous", "Comments before the definition differ: leave them out.", at=block.at
        )
    return len(comments)


def _tail(below: Sequence[str], indent: str, new: Source, block: SymbolEdit) -> int:
    """How many comment lines behind the definition the file has already."""
    comments = new.lines[new.definition.end or 0 :]
    if not comments:
        return 0
    if not all(not line.strip() or line.strip().startswith(COMMENTS) for line in comments):
        raise _extra(block)
    if [line.strip() for line in below[: len(comments)]] == [line.strip() for line in comments]:
        return len(comments)
    mine = leading(new.lines[new.definition.start - 1])
    deeper = all(not one.strip() or len(leading(one)) > len(mine) for one in comments)
    first = next((line for line in below if line.strip()), "")
    if not deeper or (first.strip().startswith(COMMENTS) and len(leading(first)) > len(indent)):
        raise _extra(block)
    return 0


def _extra(block: SymbolEdit) -> Refused:
    return Refused(
        "wrong_symbol",
        f"The source of {block.symbol} has more than that definition: give only the definition.",
        at=block.at,
    )


def _closed(last: str, body: list[str]) -> list[str]:
    """Keep a `;` or `,` behind the closing bracket of the definition."""
    for mark in (";", ","):
        if last.strip() == f"}}{mark}" and body and body[-1].strip() == "}":
            return [*body[:-1], body[-1].rstrip() + mark]
    return body
