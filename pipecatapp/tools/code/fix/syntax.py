"""Files that do not parse: a missing colon, bracket or quote, and wrong indentation."""

import re
from collections.abc import Iterator
from typing import Final

from pipecatapp.tools.code.fix.problem import Candidate, Problem
from pipecatapp.tools.code.symbols.python import parse_python

TYPES: Final = ("SyntaxError", "IndentationError", "TabError")
OPENED: Final = {"(": ")", "[": "]", "{": "}"}
QUOTED: Final = re.compile(r"""'[^'\\\n]*'|"[^"\\\n]*"|#.*""")
HEADER: Final = re.compile(
    r"\s*(?:async|case|class|def|elif|else|except|finally|for|if|match|try|while|with)\b"
)
LINES: Final = 5
"""Number of lines before the line of the error that may contain the mistake."""


def syntax(problem: Problem) -> Iterator[Candidate]:
    """Change the line of the error, or a line before it, so that the file parses."""
    if problem.error.type not in TYPES:
        return
    for line in range(problem.line, max(0, problem.line - LINES), -1):
        for kind, new in _changes(problem, line):
            candidate = problem.changed(kind, new, line=line)
            if new != problem.lines[line - 1] and _parses(candidate.text):
                yield candidate


def _changes(problem: Problem, line: int) -> Iterator[tuple[str, str]]:
    old = problem.lines[line - 1]
    code, end = _code(old)
    if HEADER.match(old) and not code.endswith(":"):
        yield "colon", f"{code}:{end}"
    yield from _brackets(code, end)
    before = problem.lines[line - 2] if line > 1 else ""
    yield from _indentation(old, before)


def _code(line: str) -> tuple[str, str]:
    """Separate the code of a line from its comment and end."""
    masked = QUOTED.sub(lambda found: "x" * len(found[0]) if found[0][0] != "#" else "", line)
    size = len(masked.rstrip())
    return line[:size], line[size:]


def _brackets(code: str, end: str) -> Iterator[tuple[str, str]]:
    masked = QUOTED.sub(lambda found: "x" * len(found[0]), code)
    opened: list[str] = []
    for at, letter in enumerate(masked):
        if letter in OPENED:
            opened.append(OPENED[letter])
        elif letter in OPENED.values() and (not opened or opened.pop() != letter):
            yield "bracket", code[:at] + code[at + 1 :] + end
            return
    if opened:
        missing = "".join(reversed(opened))
        yield "bracket", f"{code}{missing}{end}"
        if code.endswith(":"):
            yield "bracket", f"{code[:-1]}{missing}:{end}"
    for quote in ("'", '"'):
        if masked.count(quote) % 2:
            yield "quote", f"{code}{quote}{end}"
            yield from (("quote", f"{code[:at]}{quote}{code[at:]}{end}")
                        for at in range(len(code) - 1, 0, -1) if code[at] in ")]}:,")  # fmt: skip


def _indentation(old: str, before: str) -> Iterator[tuple[str, str]]:
    text = old.lstrip()
    indent = before[: len(before) - len(before.lstrip())]
    if before.rstrip().endswith(":"):
        yield "indentation", f"{indent}    {text}"
    yield "indentation", f"{indent}{text}"
    yield "indentation", old.expandtabs(4)
    for size in (4, 8):
        if len(indent) >= size:
            yield "indentation", f"{indent[:-size]}{text}"


def _parses(text: str) -> bool:
    try:
        parse_python(text)
    except SyntaxError:
        return False
    return True
