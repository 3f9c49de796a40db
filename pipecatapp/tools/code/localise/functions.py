"""The functions of the project, by the lines that they take."""

import asyncio
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pipecatapp.sandbox.tree import open_plain
from pipecatapp.tools.code.symbols.definition import Definition
from pipecatapp.tools.code.symbols.reading import definitions_of
from pipecatapp.workflow import Context

LARGEST: Final = 1 << 20
"""Bytes of a file that is read."""
MODULE: Final = "<module>"
"""The code outside of functions, as Python names it in a traceback."""


@dataclass(frozen=True, order=True)
class Function:
    """A function or method with its file and lines. A function inside another belongs to it."""

    file: str
    line: int
    end_line: int
    symbol: str


class Functions:
    """The functions of some files."""

    def __init__(self, files: dict[str, list[Function]], lengths: dict[str, int]) -> None:
        self._files, self._lengths = files, lengths

    def at(self, file: str, line: int) -> Function | None:
        """Return the function that has this line; None outside of functions."""
        found = self._files.get(file, [])
        return next((one for one in found if one.line <= line <= one.end_line), None)

    def module(self, file: str) -> Function | None:
        """Return all of a file, for an error outside of its functions."""
        length = self._lengths.get(file)
        return None if length is None else Function(file, 1, max(1, length), MODULE)


async def functions_of(ctx: Context, root: Path, files: Iterable[str]) -> Functions:
    """Read the functions of files; one that does not parse has none. Raises `ToolFailed`."""
    found: dict[str, list[Function]] = {}
    lengths: dict[str, int] = {}
    for file in sorted(set(files)):
        text = await asyncio.to_thread(_text, root, file)
        if text is not None:
            lengths[file] = len(text.splitlines())
            found[file] = _outermost(file, await definitions_of(ctx, file, text) or [])
    return Functions(found, lengths)


def _text(root: Path, file: str) -> str | None:
    try:
        with os.fdopen(open_plain(root, file), "rb") as stream:
            data = stream.read(LARGEST + 1)
    except OSError:
        return None
    return None if len(data) > LARGEST else data.decode("utf-8-sig", "replace")


def _outermost(file: str, definitions: Iterable[Definition]) -> list[Function]:
    found: list[Function] = []
    for one in sorted(definitions, key=lambda one: one.start):
        if one.kind not in ("function", "method") or one.end is None:
            continue
        if not found or one.start > found[-1].end_line:
            found.append(Function(file, one.start, one.end, one.qualified))
    return found
