"""How bytes of a file become text, and text bytes."""

import base64
import binascii
from typing import Final, Literal

from pipecatapp.workflow import ToolFailed

Encoding = Literal["utf-8", "utf-16", "latin-1", "cp1252", "base64"]
"""base64 is for files that are not text."""

CUT: Final = {"utf-8": 4, "utf-16": 4}
"""Bytes of the longest character, where one has several."""


def to_text(data: bytes, encoding: Encoding, *, whole: bool = True) -> tuple[str, int]:
    """The text of `data`, and how many bytes of it that is: where `data` is not the `whole` file,
    a character that is cut at its end is left for the next part.
    """
    if encoding == "base64":
        return base64.b64encode(data).decode("ascii"), len(data)
    name = "utf-8-sig" if encoding == "utf-8" else encoding
    least = len(data) - (0 if whole else CUT.get(encoding, 1) - 1)
    for end in range(len(data), max(least, min(1, len(data))) - 1, -1):
        try:
            return data[:end].decode(name), end
        except UnicodeDecodeError as error:
            reason = error
    raise ToolFailed(
        f"The file is not {encoding} text (byte {reason.start}): read it as latin-1 or base64."
    )


def to_bytes(text: str, encoding: Encoding) -> bytes:
    """The bytes to write."""
    try:
        if encoding == "base64":
            return base64.b64decode(text, validate=True)
        return text.encode(encoding)
    except binascii.Error as error:
        raise ToolFailed(f"The text is not valid base64: {error}.") from error
    except UnicodeEncodeError as error:
        letter = text[error.start]
        raise ToolFailed(f"{encoding} has no {letter!r}: write it as utf-8.") from error
