"""An answer of a model, split into edits and the prose around them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from pipecatapp.tools.code.edit.reading.blocks import (
    Bad,
    Block,
    SymbolEdit,
    WholeFile,
    search_replace,
)
from pipecatapp.tools.code.edit.reading.diffs import begins, parse_diff
from pipecatapp.tools.code.edit.refusal import Reason, Refused

FENCE: Final = re.compile(r" {0,3}(?P<marks>`{3,}|~{3,})[ \t]*(?P<info>[^`]*)")
OPEN: Final = re.compile(r"(<{5,})\s*SEARCH:?\s*")
DIVIDER: Final = re.compile(r"={5,}\s*")
CLOSE: Final = re.compile(r">{5,}\s*REPLACE\s*")
DECORATION: Final = re.compile(
    r"(?:#{1,6} +|[-*] +|\d+[.)] +)|(?:file(?: ?name)?|path|datei) *: *", re.I
)
WRAPPED: Final = re.compile(r"(\*\*|__|`+)(?P<text>.+?)\1")
PATH: Final = re.compile(r"(?P<path>[^\s`'\"<>|*?:;,()\[\]{}]+?)(?:::(?P<symbol>[\w.:~$]+))?")
DIFFS: Final = frozenset({"diff", "patch", "udiff"})
SHELL: Final = frozenset({"bash", "sh", "shell", "console", "zsh", "powershell"})


@dataclass
class Answer:
    """The edits in their order, and the text that belongs to none of them."""

    blocks: list[Block] = field(default_factory=list)
    prose: str = ""


@dataclass(frozen=True)
class Label:
    """A line that names the file, or `file::symbol`, of the block behind it."""

    path: str
    symbol: str = ""


def parse_answer(text: str, path: str = "") -> Answer:
    """Split an answer; `path` is the file of blocks that name none."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    scanner = _Scanner(lines, path)
    scanner.scan()
    return Answer(scanner.blocks, "\n".join(scanner.prose).strip())


def label_of(line: str) -> Label | None:
    """Read a line that names a file and nothing else."""
    text = line.strip()
    for _ in range(3):
        text = text.removesuffix(":")
        if found := WRAPPED.fullmatch(text):
            text = found["text"].strip()
        elif found := DECORATION.match(text):
            text = text[found.end() :].strip()
    named = text != line.strip().removesuffix(":")
    found = PATH.fullmatch(text)
    if found is None or not (named or "." in found["path"] or "/" in found["path"]):
        return None
    if not re.search(r"\w", found["path"]) or begins([line, "+++ "], 0):
        return None
    return Label(found["path"], found["symbol"] or "")


class _Scanner:
    """Goes through the lines once; each method handles one kind and gives the next line."""

    def __init__(self, lines: Sequence[str], path: str) -> None:
        self.lines, self.default = lines, path
        self.blocks: list[Block] = []
        self.prose: list[str] = []
        self._label: Label | None = None
        self._last = path
        self._decoration: list[str] = []
        self._whole: WholeFile | None = None

    def scan(self) -> None:
        number = 0
        while number < len(self.lines):
            line = self.lines[number]
            if OPEN.fullmatch(line):
                number = self._search_replace(number)
            elif found := FENCE.fullmatch(line):
                number = self._fence(number, found["marks"], found["info"].strip())
            elif begins(self.lines, number):
                blocks, number = parse_diff(self.lines, number, fenced=False)
                self.blocks += blocks
            else:
                number = self._prose(number)

    def _prose(self, number: int) -> int:
        line = self.lines[number]
        if CLOSE.fullmatch(line):
            self._bad("malformed", "A REPLACE marker has no SEARCH marker.", number)
        if line.strip():
            self._label = label_of(line)
        self.prose.append(line)
        return number + 1

    def _take_label(self) -> Label | None:
        """The label directly before a block; it is not prose."""
        label, self._label = self._label, None
        if label is not None:
            while self.prose and not self.prose[-1].strip():
                self.prose.pop()
            if self.prose and label_of(self.prose[-1]) == label:
                self.prose.pop()
        return label

    def _search_replace(self, number: int) -> int:
        label = self._take_label()
        path = label.path if label else self._last
        self._last = path
        marks = [
            at
            for at in range(number + 1, len(self.lines))
            if CLOSE.fullmatch(self.lines[at]) or OPEN.fullmatch(self.lines[at])
        ]
        end = marks[0] if marks else -1
        if end < 0 or OPEN.fullmatch(self.lines[end]):
            self._bad("unterminated", "A SEARCH block has no REPLACE marker.", number, path)
            return len(self.lines) if end < 0 else end
        body = self.lines[number + 1 : end]
        width = len(OPEN.fullmatch(self.lines[number])[1])  # type: ignore[index]
        dividers = [n for n, line in enumerate(body) if DIVIDER.fullmatch(line)]
        exact = [n for n in dividers if len(body[n].rstrip()) == width]
        chosen = exact if len(exact) == 1 else dividers
        if len(chosen) != 1:
            self._bad(
                "malformed",
                "A SEARCH block needs exactly one divider: if the text contains lines of `=`, use"
                " longer markers, such as `<<<<<<<<< SEARCH`, `=========`, `>>>>>>>>> REPLACE`.",
                number,
                path,
            )
            return end + 1
        search, replace = body[: chosen[0]], body[chosen[0] + 1 :]
        if not path:
            self._bad("no_path", "The SEARCH block names no file on the line before it.", number)
            return end + 1
        try:
            self.blocks.append(search_replace(path, number + 1, search, replace))
        except Refused as error:
            self.blocks.append(Bad(path, number + 1, error))
        return end + 1

    def _fence(self, number: int, marks: str, info: str) -> int:
        if self._decoration and not info and marks.startswith(self._decoration[-1]):
            self._decoration.pop()
            return number + 1
        if (inner := self._inner_search(number + 1)) is not None:
            self._decoration.append(marks)
            if named := label_of(info.partition(" ")[2] or info):
                self._label = named if "." in named.path or "/" in named.path else self._label
            return inner
        end = self._closing(number + 1, marks)
        body = self.lines[number + 1 : end]
        language, _, rest = info.partition(" ")
        if language in DIFFS or (body and begins(body, 0)):
            self._diff(number, end, body)
        elif (label := self._label_of_fence(info, rest)) and not _commands(language, label):
            self._file(label, number, end, marks)
        else:
            self._unlabelled(number, end, info)
        return end + 1

    def _inner_search(self, number: int) -> int | None:
        """The line to go on with where the fence only wraps a SEARCH block."""
        ahead = [
            n for n in range(number, min(number + 4, len(self.lines))) if self.lines[n].strip()
        ]
        if ahead and OPEN.fullmatch(self.lines[ahead[0]]):
            return ahead[0]
        if (
            len(ahead) > 1
            and OPEN.fullmatch(self.lines[ahead[1]])
            and label_of(self.lines[ahead[0]])
        ):
            return ahead[0]
        return None

    def _closing(self, number: int, marks: str) -> int:
        for at in range(number, len(self.lines)):
            line = self.lines[at].strip()
            if line.startswith(marks) and not line.strip(marks[0]):
                return at
        return len(self.lines)

    def _label_of_fence(self, info: str, rest: str) -> Label | None:
        language, _, named = info.partition(":")
        for text in (rest, named if language.isalnum() else "", "" if rest else info):
            label = label_of(text.removeprefix("path=").removeprefix("file=")) if text else None
            if label and ("." in label.path or "/" in label.path):
                self._label = None
                return label
        return self._take_label()

    def _diff(self, number: int, end: int, body: Sequence[str]) -> None:
        label = self._take_label()
        if end == len(self.lines):
            self._bad("unterminated", "The fence of the diff is not closed.", number)
            return
        path = label.path if label else self.default
        blocks, _ = parse_diff([*[""] * (number + 1), *body], number + 1, fenced=True, path=path)
        self.blocks += blocks

    def _file(self, label: Label, number: int, end: int, marks: str) -> None:
        body = self.lines[number + 1 : end]
        self._last = label.path
        inner = [line for line in body if (found := FENCE.fullmatch(line))
                 and found["marks"].startswith(marks)]  # fmt: skip
        if end == len(self.lines):
            self._bad("unterminated", "The fence of the file is not closed.", number, label.path)
        elif inner or any(OPEN.fullmatch(line) or CLOSE.fullmatch(line) for line in body):
            self._bad("malformed", _NESTED, number, label.path)
        elif label.symbol:
            self.blocks.append(SymbolEdit(label.path, number + 1, label.symbol, tuple(body)))
        else:
            self._whole = WholeFile(label.path, number + 1, tuple(body))
            self.blocks.append(self._whole)

    def _unlabelled(self, number: int, end: int, info: str) -> None:
        """A fence without a file is prose, unless it may be the rest of a file that holds one."""
        if self._whole is not None and (not info or end == len(self.lines)):
            self.blocks.remove(self._whole)
            self._bad("malformed", _NESTED, self._whole.at - 1, self._whole.path)
            self._whole = None
        self._label = None
        self.prose += self.lines[number : end + 1]

    def _bad(self, reason: Reason, message: str, number: int, path: str = "") -> None:
        self.blocks.append(Bad(path, number + 1, Refused(reason, message, at=number + 1)))


def _commands(language: str, label: Label) -> bool:
    """Whether a fence shows how to run the file rather than what is in it."""
    return language in SHELL and "." in label.path and not label.path.endswith(("sh", ".ps1"))


_NESTED: Final = (
    "It is not certain where the file ends, because it contains a fence: put it into a longer"
    " fence, such as ````."
)
