"""How bytes of a file become text, and text bytes."""

import base64
import binascii
from typing import Literal

from pipecatapp.workflow import ToolFailed

Encoding = Literal["utf-8", "utf-16", "latin-1", "cp1252", "base64"]
"""base64 is for files that are no text."""


def to_text(data: bytes, encoding: Encoding, *, whole: bool = True) -> str:
    """The text of `data`; where that is not the `whole` file, half a character at its end is
    dropped.
    """
    if encoding == "base64":
        return base64.b64encode(data).decode("ascii")
    name = "utf-8-sig" if encoding == "utf-8" else encoding
    for dropped in range(1 if whole else 4):
        try:
            return data[: len(data) - dropped].decode(name)
        except UnicodeDecodeError as error:
            reason = error
    raise ToolFailed(
        f"The file is no {encoding} text (byte {reason.start}): read it as latin-1 or base64."
    )


def to_bytes(text: str, encoding: Encoding) -> bytes:
    """The bytes to write."""
    try:
        if encoding == "base64":
            return base64.b64decode(text, validate=True)
        return text.encode(encoding)
    except binascii.Error as error:
        raise ToolFailed(f"The text is no base64: {error}.") from error
    except UnicodeEncodeError as error:
        letter = text[error.start]
        raise ToolFailed(f"{encoding} has no {letter!r}: write it as utf-8.") from error
