"""The error of a program as data, and its signature."""

import re
from collections.abc import Sequence
from typing import Final

from pydantic import BaseModel, Field

MESSAGE: Final = 4000
"""Characters of a message that are kept; the output itself stays whole in the result."""
FRAMES: Final = 50
"""Innermost frames that are kept."""
SIGNED: Final = 400
"""Characters of a message that count for its signature."""

LIBRARIES: Final = (
    "/site-packages/",
    "/dist-packages/",
    "/lib/python3",
    "/node_modules/",
    "/rustc/",
    "/.cargo/registry/",
    "/.rustup/",
    "/go/pkg/mod/",
    "/_pytest/",
    "/libsanitizer/",
)
SYSTEM: Final = (
    "/usr/", "/lib/", "/lib64/", "../sysdeps/", "../csu/", "node:", "<frozen ", "<anonymous>"
)  # fmt: skip
SOURCES: Final = "/usr/src/"
"""Where images keep the project."""

QUOTES: Final = str.maketrans(dict.fromkeys("\N{LEFT SINGLE QUOTATION MARK}"
    "\N{RIGHT SINGLE QUOTATION MARK}\N{LEFT DOUBLE QUOTATION MARK}"
    "\N{RIGHT DOUBLE QUOTATION MARK}`\"", "'"))  # fmt: skip
TOKEN: Final = re.compile(r"[^\s'()\[\]{},;=]+")
ADDRESS: Final = re.compile(r"0[xX][0-9a-fA-F]+")
NUMBER: Final = re.compile(r"(?<![A-Za-z_\d])\d(?:[\d.,:_]*\d)?")


class Frame(BaseModel):
    """A call on the stack."""

    file: str = Field(description="As the program named it.")
    line: int | None = None
    symbol: str | None = Field(default=None, description="The function.")
    own: bool = Field(default=True, description="False for libraries and the language's own code.")


class ProgramError(BaseModel):
    """The error that ended a program, or the first that a compiler or a test runner reports."""

    type: str = Field(
        description="Its name or code, such as `ValueError` or `TS2304`; `exit` without one."
    )
    message: str
    file: str | None = Field(description="Where it is in the project's own code, if known.")
    line: int | None
    frames: list[Frame] = Field(default=[], description="The stack, innermost call last.")
    symbol: str | None = Field(default=None, description="The function at `file` and `line`.")
    signature: str = Field(
        default="", description="Equal for the same error again, also after lines have moved."
    )


def program_error(
    type: str,
    message: str,
    frames: Sequence[Frame] = (),
    *,
    symbol: str | None = None,
    line: int | None = None,
) -> ProgramError:
    """Build the error; its place is the innermost frame of the project's own code.

    `symbol` is used when that frame has none, and `line` when there is no such frame: some
    programs name no file.
    """
    top = next((frame for frame in reversed(frames) if frame.own), None)
    message = message.strip("\n")[:MESSAGE]
    symbol = (top.symbol if top else None) or symbol
    return ProgramError(
        type=type,
        message=message,
        file=top.file if top else None,
        line=top.line if top else line,
        frames=list(frames[-FRAMES:]),
        symbol=symbol,
        signature=signature(type, message, symbol),
    )


def frame(file: str, line: int | None = None, symbol: str | None = None) -> Frame:
    """Build a frame and decide whether it is the project's own code."""
    file = file.removeprefix("file://").removeprefix("./")
    return Frame(file=file, line=line, symbol=symbol, own=is_own(file))


def is_own(file: str) -> bool:
    """Tell the project's own code from libraries, by the path alone."""
    path = file.replace("\\", "/")
    system = path.startswith(SYSTEM) and not path.startswith(SOURCES)
    return not system and not any(part in path for part in LIBRARIES)


def signature(type: str, message: str, symbol: str | None) -> str:
    """Name an error so that it is recognised after edits that move lines.

    Numbers, addresses and paths become `<n>`, `<address>` and `<path>`; quotes become `'`.
    """
    text = TOKEN.sub(_path, message[:SIGNED].translate(QUOTES))
    text = NUMBER.sub("<n>", ADDRESS.sub("<address>", text))
    words = " ".join(f"{type}: {text}".split())
    return f"{words} [{symbol}]" if symbol else words


def _path(match: re.Match[str]) -> str:
    """Replace a token that is a path."""
    token = match[0]
    rooted = len(token) > 1 and token.startswith(("/", "./", "../", "~/"))
    last = token.rpartition("/")[2]
    is_path = rooted or token.count("/") > 1 or ("/" in token and "." in last)
    return "<path>" if is_path or token[1:3] == ":\\" else token
