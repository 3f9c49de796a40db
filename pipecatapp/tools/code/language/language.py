"""The tool that identifies the language of a text or a file."""

import asyncio
import os
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, Field

from pipecatapp.sandbox.tree import open_plain
from pipecatapp.tools.code.language.identify import READ, Evidence, identify
from pipecatapp.tools.files.place import inside, workspace
from pipecatapp.workflow import Context, ToolFailed, tool

MAIN: Final = "main"


class TextLanguage(BaseModel):
    """The language of a text, and what fits it."""

    language: str | None = Field(description="Its name, such as `Python`; null if not identified.")
    by: Evidence | None = Field(description="The evidence for it; null if there is none.")
    code: str = Field(description="The text; of a fenced program in other text, the program alone.")
    run: str | None = Field(description="The value for `language` of code.run; null for others.")
    file_name: str | None = Field(description="A name for a file with it, such as `main.py`.")
    command: str | None = Field(description="The command line that starts this file.")


@tool("code.language", effect="read", version=1, workspace=True)
async def language(
    ctx: Context,
    text: Annotated[
        str, Field(description="A program, or an answer that holds one in a fence.")
    ] = "",
    path: Annotated[
        str, Field(description="The name of its file. Without `text`, a file of the workspace.")
    ] = "",
) -> TextLanguage:
    """Identify the language of a text or a file: by its extension, `#!`, fence or content."""
    if not text and not path:
        raise ToolFailed("Give `text`, or the `path` of a file of the workspace.")
    if not text:
        text = await asyncio.to_thread(_beginning, workspace(ctx), path)
    found = await asyncio.to_thread(identify, path, text)
    known = found.language
    if known is None:
        return TextLanguage(
            language=None, by=None, code=found.code, run=None, file_name=path or None, command=None
        )
    ending = known.extensions[0] if known.extensions else ""
    name = path or (MAIN + ending if ending else known.names[0])
    return TextLanguage(
        language=known.name,
        by=found.by,
        code=found.code,
        run=known.run or None,
        file_name=name,
        command=known.start.format(name) or None,
    )


def _beginning(root: Path, path: str) -> str:
    """The first characters of a file. Raises `ToolFailed`."""
    place = inside(root, path)
    try:
        with os.fdopen(open_plain(root, place), "rb") as stream:
            return stream.read(READ).decode(errors="replace")
    except OSError as error:
        raise ToolFailed(f"{path!r} cannot be read: {error.strerror or error}.") from error
