"""Read a file of the workspace."""

import asyncio
import os
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field

from pipecatapp.sandbox.tree import NotPlain, open_plain
from pipecatapp.tools.files.encoding import Encoding, to_text
from pipecatapp.tools.files.place import inside, workspace
from pipecatapp.workflow import Context, ToolFailed, tool

LARGEST = 4 * 1024 * 1024
"""Bytes in one reading; the rest is read by `offset`."""


class FileText(BaseModel):
    """A file, or the requested part of it."""

    text: str = Field(description="Its content; base64 if requested.")
    path: str = Field(description="Where it really is in the workspace, links resolved.")
    size: int = Field(description="Bytes of the whole file.")
    next: int | None = Field(description="The `offset` to read on from; null at the end.")


@tool("file.read", effect="read", version=1, workspace=True)
async def read(
    ctx: Context,
    path: Annotated[str, Field(description="In the workspace.", min_length=1)],
    encoding: Annotated[Encoding, Field(description="How its bytes are text.")] = "utf-8",
    offset: Annotated[int, Field(description="Bytes to leave out at the beginning.", ge=0)] = 0,
    limit: Annotated[int, Field(description="Bytes to read at most.", ge=1, le=LARGEST)] = 262144,
) -> FileText:
    """Read a file of the workspace."""
    root = workspace(ctx)
    place = inside(root, path)
    try:
        size, data = await asyncio.to_thread(_part, root, place, offset, limit)
    except NotPlain as error:
        raise ToolFailed(f"{path!r} cannot be read: {error}.") from error
    except OSError as error:
        raise ToolFailed(f"{path!r} cannot be read: {error.strerror}.") from error
    whole = offset == 0 and len(data) >= size
    text, taken = to_text(data, encoding, whole=whole)
    end = offset + taken
    return FileText(text=text, path=place, size=size, next=end if end < size else None)


def _part(root: Path, place: str, offset: int, limit: int) -> tuple[int, bytes]:
    with os.fdopen(open_plain(root, place), "rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        stream.seek(offset)
        return size, stream.read(limit)
