"""Repair Markdown that is not shown as it was meant."""

import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from pipecatapp.tools.fix.edits import CannotRepair, Edits, blocks, cut

OPENING: Final = re.compile(r"( {0,3})(`{3,}(?=[^`]*$)|~{3,})(.*)")
FRONT_MATTER: Final = re.compile(r"\A---[ \t]*\n.*?^---[ \t]*\n", re.DOTALL | re.MULTILINE)
COMMENT: Final = re.compile(r"<!--.*?(-->|\Z)", re.DOTALL)
HEADING: Final = re.compile(r"( {0,3})(#{1,6})([^\s#].*)")
SYMBOL: Final = re.compile(r"(\s*)([•‣▪●◦][ \t]*)(\S.*)")
BULLET: Final = re.compile(r"(\s*)([-*+])(?=[^\W\d]|[`\[])(.*)")
NUMBER: Final = re.compile(r"(\s*)(\d{1,9})[.)](?=[^\W\d]|[`\[*])(.*)")
ITEM: Final = re.compile(r"(\s*)([-*+]|\d{1,9}[.)])[ \t]+\S")
SPAN: Final = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
SPACED_LINK: Final = re.compile(r"\[[^\[\]]+\]([ \t]+)\(https?://[^\s()<>]+\)")
OPEN_LINK: Final = re.compile(r"\[[^\[\]]+\]\((?:https?://|[./#])[^\s()<>]*[^\s()<>.,;:!?]$")
STRONG: Final = re.compile(r"(?:^|(?<=[\s(]))\*\*(?=[^\s*])")
DELIMITER: Final = re.compile(r" {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*")
LONGEST: Final = 2000
"""Characters of a line that is repaired."""
PIPE: Final = re.compile(r"(?<!\\)\|")


def repair_markdown(text: str) -> tuple[Edits, list[CannotRepair]]:
    """Repair what is certain in a Markdown text, and return it with the problems that are left."""
    edits = Edits(text)
    _unwrap(edits)
    problems: list[CannotRepair] = []
    _tables(edits, problems)
    lines = Lines(edits.text)
    for at in range(len(lines.lines)):
        while (repaired := _line(edits, lines, at)) is not None:
            lines = repaired
    _close_fence(edits, lines)
    return edits, sorted(problems, key=lambda one: one.line or 0)


class Lines:
    """The lines of a text, where each begins, and which are prose: not code, nor a comment."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = [line.rstrip("\r\n") for line in text.splitlines(keepends=True)]
        self.starts: list[int] = []
        offset = 0
        for line in text.splitlines(keepends=True):
            self.starts.append(offset)
            offset += len(line)
        self.fence = ""
        """The fence that is open at the end, with its indentation."""
        self.prose = self._prose(text)

    def _prose(self, text: str) -> list[bool]:
        front = FRONT_MATTER.match(text)
        comments = [match.span() for match in COMMENT.finditer(text)]
        firsts = [first for first, _ in comments]
        prose = []
        for line, start in zip(self.lines, self.starts, strict=True):
            was_open = self.fence
            if was_open:
                marker = was_open.strip()
                bare = line.strip()
                if set(bare) == {marker[0]} and len(bare) >= len(marker) and not _is_code(line):
                    self.fence = ""
            elif opened := OPENING.fullmatch(line):
                self.fence = opened[1] + opened[2]
            before = bisect_right(firsts, start)
            is_hidden = (before and start < comments[before - 1][1]) or (
                front is not None and start < front.end()
            )
            is_prose = not (was_open or self.fence or is_hidden or _is_code(line))
            prose.append(is_prose and len(line) <= LONGEST)
        return prose

    def line(self, at: int) -> str:
        """Return a line; empty before the first and after the last."""
        return self.lines[at] if 0 <= at < len(self.lines) else ""

    def is_alone(self, at: int) -> bool:
        """Tell whether a line has blank lines, or nothing, before and after it."""
        return not self.line(at - 1).strip() and not self.line(at + 1).strip()


def _is_code(line: str) -> bool:
    """Tell whether a line is code by its indentation; the items of nested lists count as such."""
    return line.startswith(("    ", "\t"))


def _unwrap(edits: Edits) -> None:
    """Remove a fence around the whole text that is marked as Markdown."""
    found = list(blocks(edits.text))
    text = edits.text.strip()
    if len(found) == 1 and found[0].word in ("markdown", "md"):
        end = edits.text[found[0].end :].strip()
        if text.startswith(("```", "~~~")) and len(set(end)) == 1 and end.startswith(text[:3]):
            cut(edits, found[0].start, found[0].end, "the fence around the whole text removed")


def _close_fence(edits: Edits, lines: Lines) -> None:
    if fence := lines.fence:
        end = len(edits.text)
        newline = "" if edits.text.endswith("\n") else "\n"
        edits.replace(end, end, f"{newline}{fence}\n", "unclosed fence closed at the end")


def _line(edits: Edits, lines: Lines, at: int) -> Lines | None:
    """Repair a line of prose once; return the lines then, or None if it needs no repair."""
    if not lines.prose[at]:
        return None
    start, line = lines.starts[at], lines.lines[at]
    for repair in (_heading, _item, _strong, _link):
        repaired, reason = repair(lines, at)
        if repaired is not None:
            edits.replace(start, start + len(line), repaired, reason)
            return Lines(edits.text)
    return None


Repair = tuple[str | None, str]
"""The repaired line, if it needs a repair, and the reason."""


def _heading(lines: Lines, at: int) -> Repair:
    """Insert the space of a heading; `#word` may be a tag unless it is alone and a sentence."""
    reason = "space of a heading added"
    found = HEADING.fullmatch(lines.lines[at])
    if not found:
        return None, reason
    is_heading = len(found[2]) > 1 or (found[3][0].isupper() and lines.is_alone(at))
    return (f"{found[1]}{found[2]} {found[3]}" if is_heading else None), reason


def _item(lines: Lines, at: int) -> Repair:
    """Insert the space of an item of a list whose other items show that it is one."""
    reason = "space of a list item added"
    line = lines.lines[at]
    if symbol := SYMBOL.fullmatch(line):
        return f"{symbol[1]}- {symbol[3]}", "item of a list marked with -"
    around = (lines.line(at - 1), lines.line(at + 1))
    if number := NUMBER.fullmatch(line):
        near = {int(found[2]) for one in around if (found := re.match(r"(\s*)(\d{1,9})[.)]", one))}
        if near & {int(number[2]) - 1, int(number[2]) + 1}:
            end = len(number[1]) + len(number[2]) + 1
            return f"{line[:end]} {line[end:]}", reason
    bullet = BULLET.fullmatch(line)
    if not bullet or (bullet[2] == "*" and "*" in bullet[3]):
        return None, reason
    items = [found for one in around if (found := ITEM.match(one))]
    if any(found[1] == bullet[1] and found[2] == bullet[2] for found in items):
        return f"{bullet[1]}{bullet[2]} {bullet[3]}", reason
    return None, reason


def _without_code(line: str) -> str:
    """Blank the code in a line; all of a line in which code may be unclosed."""
    left = SPAN.sub(lambda found: "x" * len(found[0]), line)
    return "x" * len(left) if "`" in left or "\\" in left else left


def _strong(lines: Lines, at: int) -> Repair:
    """Close strong emphasis at the end of a paragraph or an item that is one line."""
    line, after = lines.lines[at], lines.line(at + 1)
    plain = _without_code(line)
    is_item = ITEM.match(line) and (not after.strip() or ITEM.match(after))
    if "|" in line or not (is_item or lines.is_alone(at)):
        return None, ""
    stars = 2 + bool(re.match(r"\s*\* ", line))
    if plain.count("**") == 1 and plain.count("*") == stars and STRONG.search(plain):
        return f"{line.rstrip()}**", "unclosed emphasis closed"
    return None, ""


def _link(lines: Lines, at: int) -> Repair:
    """Close a link at the end of a line, or remove the space between its text and address."""
    line = lines.lines[at]
    plain = _without_code(line)
    if spaced := SPACED_LINK.search(plain):
        return line[: spaced.start(1)] + line[spaced.end(1) :], "space within a link removed"
    if OPEN_LINK.search(plain):
        return f"{line})", "unclosed link closed"
    return None, ""


def _tables(edits: Edits, problems: list[CannotRepair]) -> None:
    """Repair the tables of a text; a row with too many cells may be a problem that is left."""
    at, lines = 0, Lines(edits.text)
    while at < len(lines.lines):
        lines = lines if lines.text == edits.text else Lines(edits.text)
        below = lines.line(at + 1)
        if _is_row(lines, at) and "|" in below and DELIMITER.fullmatch(below):
            at = _table(edits, lines, at, problems)
        elif _lacks_delimiter(lines, at):
            width = len(cells(lines.lines[at]))
            start = lines.starts[at + 1]
            edits.replace(start, start, _delimiter(width), "line below the header of a table added")
        else:
            at += 1


def _is_row(lines: Lines, at: int) -> bool:
    line = lines.line(at)
    return at < len(lines.lines) and lines.prose[at] and bool(PIPE.search(line))


def _lacks_delimiter(lines: Lines, at: int) -> bool:
    """Tell whether lines that begin and end with `|` lack only the line below the header."""
    if lines.line(at - 1).strip():
        return False
    block: list[str] = []
    while _is_row(lines, at + len(block)):
        block.append(lines.lines[at + len(block)].strip())
    widths = {len(cells(line)) for line in block}
    return (
        len(block) > 1
        and not any(DELIMITER.fullmatch(line) for line in block)
        and all(line.startswith("|") and line.endswith("|") and len(line) > 1 for line in block)
        and len(widths) == 1
        and widths != {1}
    )


def _delimiter(width: int) -> str:
    return "|" + " --- |" * width + "\n"


def _table(edits: Edits, lines: Lines, at: int, problems: list[CannotRepair]) -> int:
    """Repair the table whose header is in a line; return the line after its end."""
    end = at + 2
    while _is_row(lines, end):
        end += 1
    width = len(cells(lines.lines[at]))
    for row in range(end - 1, at + 1, -1):  # From the end: offsets of earlier lines stay.
        _fit_row(edits, lines, row, width, problems)
    _fit_delimiter(edits, lines, at + 1, width)
    return end


def _fit_delimiter(edits: Edits, lines: Lines, at: int, width: int) -> None:
    line, start = lines.lines[at], lines.starts[at]
    found = [cell.strip() for cell in cells(line)]
    if len(found) != width:
        found = [*found[:width], *["---"] * (width - len(found))]
        reason = "line below the header of a table fitted to it"
        edits.replace(start, start + len(line), f"| {' | '.join(found)} |", reason)


def _fit_row(
    edits: Edits, lines: Lines, at: int, width: int, problems: list[CannotRepair]
) -> None:  # fmt: skip
    """Fit a row to the header, without removing any text."""
    line, start = lines.lines[at], lines.starts[at]
    found = cells(line)
    if len(found) == width:
        return
    if len(found) < width:
        end = line.rstrip()
        end = end if end.endswith("|") and not end.endswith("\\|") else f"{end} |"
        missing = " |" * (width - len(found))
        edits.replace(start, start + len(line), end + missing, "missing cells of a table row added")
        return
    escaped = SPAN.sub(lambda span: PIPE.sub(r"\\|", span[0]), line)
    if len(cells(escaped)) == width:
        edits.replace(start, start + len(line), escaped, "| within code of a table escaped")
        return
    if not "".join(found[width:]).strip():
        kept = "|".join(found[:width])
        reason = "empty cells of a table row removed"
        edits.replace(start, start + len(line), f"|{kept}|", reason)
        return
    message = f"A table row has {len(found)} cells and its header {width}."
    problems.append(CannotRepair(message, edits.line_at(start)))


def cells(line: str) -> Sequence[str]:
    """Return the cells of a table row, as GitHub's Markdown splits it."""
    line = line.strip().removeprefix("|")
    if line.endswith("|") and not line.endswith("\\|"):
        line = line[:-1]
    return PIPE.split(line)
