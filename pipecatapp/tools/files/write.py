"""The tool `file.write`: write a whole file of the workspace."""

import asyncio
import hashlib
import os
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from hearth.files import write_atomic_in
from pipecatapp.sandbox.tree import NotPlain, open_plain, parent_of
from pipecatapp.tools.files.encoding import Encoding, to_bytes
from pipecatapp.tools.files.place import inside, workspace
from pipecatapp.workflow import Context, ToolFailed, tool

LARGEST = 16 * 1024 * 1024
"""Bytes of a file that is written by a tool; larger ones are made by programs."""

Mode = Literal["replace", "create", "append"]


class Written(BaseModel):
    """The written file."""

    path: str = Field(description="Where it really is in the workspace, links resolved.")
    size: int = Field(description="Bytes of the whole file.")
    sha256: str = Field(description="Of the whole file, in hex.")
    created: bool = Field(description="Whether there was none before.")


@tool("file.write", effect="workspace", version=1)
async def write(
    ctx: Context,
    path: Annotated[
        str, Field(description="In the workspace; missing folders are made.", min_length=1)
    ],
    text: Annotated[str, Field(description="All that is written.")],
    mode: Annotated[
        Mode, Field(description="`create` fails where a file is, `append` adds to it.")
    ] = "replace",
    encoding: Annotated[Encoding, Field(description="How the text becomes bytes.")] = "utf-8",
    executable: Annotated[
        bool | None, Field(description="Whether it is executable; null leaves it unchanged.")
    ] = None,
) -> Written:
    """Write a file of the workspace; readers see the whole file or the previous one."""
    root = workspace(ctx)
    place, data = inside(root, path), to_bytes(text, encoding)
    return await asyncio.to_thread(write_bytes, root, place, data, mode, executable)


def write_bytes(
    root: Path,
    place: str,
    data: bytes,
    mode: Mode = "replace",
    executable: bool | None = None,  # noqa: FBT001
) -> Written:
    """Write a file at `place`, a path that `inside` has checked. Raises `ToolFailed`."""
    try:
        return _write(root, place, data, mode, executable)
    except FileExistsError:
        raise ToolFailed(f"{place!r} exists already.") from None
    except NotPlain as error:
        raise ToolFailed(f"{place!r} cannot be written: {error}.") from error
    except OSError as error:
        raise ToolFailed(f"{place!r} cannot be written: {error.strerror}.") from error


def _write(root: Path, place: str, data: bytes, mode: Mode, executable: bool | None) -> Written:  # noqa: FBT001
    there = _there(root, place)
    if there is not None and mode == "create":
        raise FileExistsError(place)
    before, permissions = there or (b"", 0o644)
    whole = before + data if mode == "append" else data
    if len(whole) > LARGEST:
        raise ToolFailed(f"{place!r} would have {len(whole)} bytes; a tool writes {LARGEST}.")
    if executable is not None:
        permissions = permissions | 0o111 if executable else permissions & ~0o111
    with parent_of(root, place, make=True) as (folder, name):
        write_atomic_in(folder, name, whole, permissions=permissions)
    return Written(
        path=place,
        size=len(whole),
        sha256=hashlib.sha256(whole).hexdigest(),
        created=there is None,
    )


def _there(root: Path, place: str) -> tuple[bytes, int] | None:
    """Content and permissions of the file that is there; only so much as may be written."""
    try:
        file = open_plain(root, place)
    except FileNotFoundError:
        return None
    with os.fdopen(file, "rb") as stream:
        return stream.read(LARGEST + 1), os.fstat(stream.fileno()).st_mode & 0o777
