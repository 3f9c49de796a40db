"""Answers with a known outcome: true edits, rendered, and most of them damaged."""

import random
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.benchmarks.code.releases import Release
from tests.benchmarks.code.rendering import (
    PATH,
    TrueEdit,
    diff,
    fenced,
    parts,
    search_replace,
    symbol,
    text,
    whole,
)

PROSE = ("", "", "Here is the fix:\n\n", "I looked at `module.py`.\n\nThe problem is clear:\n\n")
ELIDED = (
    "# ... rest of the code unchanged ...", "# existing code", "# ... (rest of the function)",
    "# The rest remains the same", "# ...", "...",
)  # fmt: skip
KINDS = (
    "whole", "whole_crlf", "whole_elided", "search", "search_fence", "search_short",
    "search_dedent", "search_tabs", "search_stripped", "search_crlf", "search_moved",
    "search_stale", "search_twice", "search_elided", "git_diff", "diff", "diff_counts",
    "diff_no_numbers", "diff_dedent", "diff_moved", "diff_stale", "diff_twice_above", "diff_crlf",
    "symbol", "symbol_dedent", "symbol_json", "symbol_moved", "symbol_elided", "no_final_newline",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """An answer for a file. `expected` is the file afterwards; where `certain` is false, a refusal
    is right, too. `lines` are the same edit as a diff, for programs that take nothing else.
    """

    kind: str
    file: bytes
    answer: str | dict[str, str]
    expected: bytes
    certain: bool
    lines: tuple[str, ...] = ()


def cases(releases: Sequence[Release], count: int, seed: int = 21) -> Iterator[Case]:
    """So many answers; equal for equal arguments."""
    chance = random.Random(seed)
    made = 0
    while made < count:
        edit = true_edit(chance.choice(releases), chance)
        case = damaged(edit, KINDS[made % len(KINDS)], chance) if edit else None
        if case is not None:
            made += 1
            yield case


def true_edit(release: Release, chance: random.Random) -> TrueEdit | None:
    """One to three neighbouring changes of a release, as one fix would have them."""
    full = TrueEdit(release.old.split("\n")[:-1], release.new.split("\n")[:-1])
    changed = full.changed()
    if not changed:
        return None
    first = chance.randrange(len(changed))
    chosen = changed[first : first + chance.choice((1, 1, 2, 3))]
    new = list(full.old)
    for start, end, new_start, new_end in reversed(chosen):
        new[start:end] = full.new[new_start:new_end]
    if new == full.old or len(new) < len(full.old) * 0.8:
        return None
    try:
        for lines in (full.old, new):
            compile(text(lines), PATH, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return None
    return TrueEdit(full.old, new)


def damaged(edit: TrueEdit, kind: str, chance: random.Random) -> Case | None:
    """The answer of that kind; None where the edit allows none."""
    base, _, damage = kind.partition("_")
    if kind == "no_final_newline":
        base = "search"
    make = {"whole": _whole, "search": _search, "git": _diff, "diff": _diff, "symbol": _symbol}[
        base
    ]
    case = make(edit, kind, damage, chance)
    if case is None:
        return None
    if isinstance(case.answer, str):
        case = Case(kind, case.file, chance.choice(PROSE) + case.answer, case.expected,
                    case.certain, case.lines)  # fmt: skip
    return case


def _case(
    edit: TrueEdit, kind: str, answer: str | dict[str, str], *, certain: bool = True,
    file: Sequence[str] | None = None, expected: Sequence[str] | None = None,
    lines: Sequence[str] = (),
) -> Case:  # fmt: skip
    sides = [
        text(edit.old if file is None else file),
        text(edit.new if expected is None else expected),
    ]
    if kind.endswith("crlf"):
        sides = [side.replace("\n", "\r\n") for side in sides]
    if kind == "no_final_newline":
        sides = [side.removesuffix("\n") for side in sides]
    return Case(kind, sides[0].encode(), answer, sides[1].encode(), certain, tuple(lines))


def _elide(lines: Sequence[str], chance: random.Random) -> list[str] | None:
    """Lines of the middle replaced by a comment that stands for them."""
    if len(lines) < 4:
        return None
    start = chance.randrange(1, len(lines) - 2)
    end = chance.randrange(start + 1, len(lines) - 1)
    indent = re.match(r"\s*", lines[start])
    return [*lines[:start], f"{indent[0] if indent else ''}{chance.choice(ELIDED)}", *lines[end:]]


def _whole(edit: TrueEdit, kind: str, damage: str, chance: random.Random) -> Case | None:
    if damage == "elided":
        left = _elide(edit.new, chance)
        return (
            None
            if left is None
            else _case(edit, kind, whole(TrueEdit(edit.old, left)), certain=False)
        )
    return _case(edit, kind, whole(edit))


def _other(edit: TrueEdit, damage: str, chance: random.Random, near: int) -> list[list[str]] | None:
    """The file and the result after a change of somebody else: before the edit (`moved`), of a line
    next to it (`stale`), or the edited lines once more above (`twice`).
    """
    first, last, *_ = edit.changed()[0]
    if damage == "moved":
        extra = [f"# moved {number}" for number in range(chance.randrange(1, 40))]
        return [[*extra, *edit.old], [*extra, *edit.new]]
    if damage.startswith("twice"):
        extra = edit.old[max(0, first - near) : last + near]
        return [[*extra, *edit.old], [*extra, *edit.new]] if any(map(str.strip, extra)) else None
    at = first - 1
    if at < 0 or not edit.old[at].strip() or edit.new[: at + 1] != edit.old[: at + 1]:
        return None
    line = f"{edit.old[at]}  # stale"
    return [[*side[:at], line, *side[at + 1 :]] for side in (edit.old, edit.new)]


def _search(edit: TrueEdit, kind: str, damage: str, chance: random.Random) -> Case | None:
    context = 0 if damage == "short" else chance.choice((1, 2, 3))
    found = parts(edit, context)
    if not all(any(map(str.strip, search)) for search, _ in found):
        return None
    certain = all(_once(edit.old, search) for search, _ in found)
    if damage in ("moved", "stale", "twice"):
        sides = _other(edit, damage, chance, context)
        certain = certain and damage == "moved"
        return None if sides is None else _case(edit, kind, search_replace(found), certain=certain,
                               file=sides[0], expected=sides[1])  # fmt: skip
    if damage == "elided":
        left = _elide(found[0][1], chance)
        return (
            None
            if left is None
            else _case(edit, kind, search_replace([(found[0][0], left)]), certain=False)
        )
    if damage in ("dedent", "tabs", "stripped"):
        changed = [_reindented(search, replace, damage) for search, replace in found]
        if changed == found:
            return None
        return _case(edit, kind, search_replace(changed), certain=certain)
    return _case(edit, kind, search_replace(found, fence=damage == "fence"), certain=certain)


def _once(lines: Sequence[str], search: Sequence[str]) -> bool:
    size = len(search)
    return sum(list(lines[n : n + size]) == list(search) for n in range(len(lines))) == 1


def _reindented(
    search: list[str], replace: list[str], damage: str
) -> tuple[list[str], list[str]]:  # fmt: skip
    if damage == "tabs":
        both = [re.sub(r"^(?:    )+", lambda found: "\t" * (len(found[0]) // 4), line)
                for line in (*search, *replace)]  # fmt: skip
    elif damage == "stripped":
        both = [search[0].lstrip(), *search[1:], replace[0].lstrip(), *replace[1:]] if (
            replace and search[0] == replace[0]) else [*search, *replace]  # fmt: skip
    else:
        both = textwrap.dedent("\n".join((*search, *replace))).split("\n")
    return both[: len(search)], both[len(search) :]


def _diff(edit: TrueEdit, kind: str, damage: str, chance: random.Random) -> Case | None:
    lines = diff(edit, blob=kind == "git_diff")
    if damage in ("moved", "stale", "twice_above"):
        sides = _other(edit, damage, chance, 3)
        if sides is None:
            return None
        file, expected = sides
        return _case(
            edit, kind, fenced(lines), certain=damage == "moved", file=file, expected=expected,
            lines=lines,
        )  # fmt: skip
    if damage == "counts":
        lines = [re.sub(r"(?<=[-+])\d+,\d+", lambda _: f"{chance.randrange(1, 99)},9", line)
                 if line.startswith("@@ ") else line for line in lines]  # fmt: skip
    elif damage == "no_numbers":
        lines = [re.sub(r"^@@ .* @@", "@@ @@", line) for line in lines]
    elif damage == "dedent":
        body = [line for line in lines if line[:1] in " -+" and line[:3] not in ("---", "+++")]
        margin = min((len(line[1:]) - len(line[1:].lstrip()) for line in body if line[1:].strip()),
                     default=0)  # fmt: skip
        if not margin:
            return None
        lines = [line[0] + line[1 + margin :] if line in body else line for line in lines]
    return _case(edit, kind, fenced(lines), lines=lines)


def _symbol(edit: TrueEdit, kind: str, damage: str, chance: random.Random) -> Case | None:
    found = symbol(edit)
    if found is None:
        return None
    name, source = found
    file = expected = None
    certain = True
    if damage == "dedent":
        source = textwrap.dedent("\n".join(source)).split("\n")
    elif damage == "moved":
        file, expected = _other(edit, damage, chance, 0) or (None, None)
    elif damage == "elided":
        left = _elide(source, chance)
        if left is None:
            return None
        source, certain = left, False
    answer: str | dict[str, str] = f"{PATH}::{name}\n````python\n{text(source)}````\n"
    if damage == "json":
        answer = {"path": PATH, "symbol": name, "source": text(source)}
    return _case(edit, kind, answer, certain=certain, file=file, expected=expected)
