"""Lines of a program's output that a prompt has elsewhere."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from pipecatapp.tools.code.errors import ProgramError

QUOTED: Final = re.compile(r"(?:>|E|)\s{3,}(.*)|>\s*(.+)")
"""A line of code, as Python, pytest and node quote it, or of a message, as pytest does."""
RULE: Final = re.compile(r"[\s_=─-]{10,}")
FILLING: Final = re.compile(r"(?<=\S)( )\1{9,}|([=_─-])\2{9,}")
"""With which a heading or a line is brought to the width of a terminal."""
MARKER: Final = re.compile(r"\s*[\s~^]*\^[\s~^]*")
"""Below a line of code, it shows the part that failed."""


def without_repeated(output: str, error: ProgramError | None, code: Iterable[str]) -> str:
    """Remove blank lines, rules, and quoted lines that are in `code` or in the error's message.

    A quoted line stays where the next line marks a part of it. Headings become narrow.
    """
    known = {line.strip() for line in code}
    if error is not None:
        known |= {line.strip() for line in error.message.splitlines()}
        known.add(f"{error.type}: {error.message.partition(chr(10))[0]}".strip())
    lines = output.splitlines()
    return "\n".join(
        FILLING.sub(lambda found: found[0][:3], line)
        for at, line in enumerate(lines)
        if not _is_repeated(lines, at, known)
    )


def _is_repeated(lines: Sequence[str], at: int, known: set[str]) -> bool:
    line = lines[at]
    if not line.strip() or RULE.fullmatch(line):
        return True
    if at + 1 < len(lines) and MARKER.fullmatch(lines[at + 1]):
        return False
    quoted = QUOTED.fullmatch(line)
    return quoted is not None and (quoted[1] or quoted[2] or "").strip() in known
