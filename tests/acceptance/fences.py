"""The fenced blocks of the documentation, and how each of them is held to be true."""

import re
from dataclasses import dataclass
from pathlib import Path

from tests.rules import tree

FENCE = re.compile(
    r"^(?:<!-- shown by: (?P<elsewhere>\S+) -->\n)?^```(?P<language>\w*)\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
EXECUTED = {"bash", "python", "yaml", "json"}
READ_ONLY = {"text"}
"""Output, pictures and layouts: nothing to run."""


@dataclass(frozen=True)
class Fence:
    """One block: where it stands, its language, its text, and the test that shows it instead."""

    page: Path
    line: int
    language: str
    body: str
    elsewhere: str | None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def fences(page: Path) -> list[Fence]:
    """The blocks of one page in their order."""
    text = tree.text(page)
    return [
        Fence(
            page,
            text.count("\n", 0, found.start()) + 1,
            found["language"],
            found["body"],
            found["elsewhere"],
        )
        for found in FENCE.finditer(text)
    ]
