"""Definitions of a file, by the reader of its language."""

import asyncio

from pipecatapp.tools.code.symbols import ctags
from pipecatapp.tools.code.symbols.definition import Definition
from pipecatapp.tools.code.symbols.python import python_definitions
from pipecatapp.workflow import Context


def is_python(path: str) -> bool:
    """Whether libcst reads the file."""
    return path.endswith((".py", ".pyi"))


async def definitions_of(ctx: Context, path: str, text: str) -> list[Definition] | None:
    """The definitions in a text that is, or would be, the file `path`; None where it does not parse
    or its language is not known. Raises `ToolFailed` where ctags is missing.
    """
    if is_python(path):
        try:
            return await asyncio.to_thread(python_definitions, text)
        except SyntaxError:
            return None
    if ctags.known(path):
        return await ctags.definitions_in_text(ctx, path, text)
    return None
