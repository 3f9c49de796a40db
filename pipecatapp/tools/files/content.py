"""Read a whole file of the workspace that is sent to a model."""

import os
from pathlib import Path

from pipecatapp.sandbox.tree import NotPlain, open_plain
from pipecatapp.tools.files.place import inside
from pipecatapp.workflow import ToolFailed


def content_of(root: Path, path: str, *, largest: int, advice: str) -> bytes:
    """Return the content of a file of the workspace `root`; no link is followed.

    Raises `ToolFailed` if it cannot be read or has more than `largest` bytes; `advice` then says
    what to do, such as "make it smaller".
    """
    try:
        with os.fdopen(open_plain(root, inside(root, path)), "rb") as stream:
            content = stream.read(largest + 1)
    except NotPlain as error:
        raise ToolFailed(f"{path!r} cannot be read: {error}.") from error
    except OSError as error:
        raise ToolFailed(f"{path!r} cannot be read: {error.strerror}.") from error
    if len(content) > largest:
        raise ToolFailed(f"{path!r} has more than {largest >> 20} MiB: {advice}.")
    return content
