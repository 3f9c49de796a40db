"""The tool that reads the documentation of a project."""

import asyncio
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Final

from pydantic import BaseModel, Field

from pipecatapp.sandbox.tree import TooLarge, open_plain, walk
from pipecatapp.tools.files.place import workspace
from pipecatapp.tools.memory.tokens import estimated
from pipecatapp.tools.project.facts import DEPTH, SKIPPED
from pipecatapp.tools.tasks.find import words
from pipecatapp.workflow import Context, ToolFailed, tool

ENDINGS: Final = (".md", ".rst", ".adoc")
NAMES: Final = frozenset(
    {"readme", "contributing", "architecture", "style", "styleguide", "design"}
)
"""Names of documentation in files with another ending, or none."""
OMITTED: Final = ("changelog", "changes", "license", "history")
FILES: Final = 500
LARGEST: Final = 256 << 10
"""Bytes of a file that is read."""
HEADING: Final = re.compile(r"^#{1,6} +(?P<title>.+?) *#*$|^=+ +(?P<other>.+)$")
UNDERLINE: Final = re.compile(r"^([=~^\"*+#-])\1{2,}$")


class ProjectDocument(BaseModel):
    """A file of documentation."""

    path: str
    headings: list[str]


class ProjectDocs(BaseModel):
    """The documentation of a project."""

    documents: list[ProjectDocument] = Field(description="All documentation with its headings.")
    text: str = Field(description="The sections that fit the request best, each with its file.")
    cut: bool = Field(description="Whether sections with words of the request are left out.")


@dataclass(frozen=True)
class Section:
    """A heading with the text up to the next one."""

    path: str
    heading: str
    text: str


@tool("project.docs", effect="read", version=1, workspace=True)
async def docs(
    ctx: Context,
    text: Annotated[
        str, Field(description="The request; empty for the beginnings of the documents.")
    ] = "",
    budget: Annotated[int, Field(description="Tokens of the text.", ge=50, le=20000)] = 1000,
) -> ProjectDocs:
    """Read the project's documentation: its files, and the sections with words of a request.

    Pages in Markdown, reStructuredText and AsciiDoc, and files such as README.
    """
    root = workspace(ctx)
    try:
        sections = await asyncio.to_thread(lambda: list(_sections(root)))
    except (OSError, TooLarge) as error:
        raise ToolFailed(f"The workspace cannot be read: {error}.") from error
    headings: dict[str, list[str]] = {}
    for one in sections:
        headings.setdefault(one.path, []).extend([one.heading] if one.heading else [])
    shown, cut = _within(_ranked(sections, words(text)), budget)
    return ProjectDocs(
        documents=[ProjectDocument(path=path, headings=found) for path, found in headings.items()],
        text=shown,
        cut=cut,
    )


def _sections(root: Path) -> Iterator[Section]:
    """Yield the sections of all documentation, the files nearest to the root first."""
    entries = (one.path for one in walk(root, depth=DEPTH, skip=SKIPPED) if one.is_file)
    paths = sorted(filter(_is_documentation, entries), key=lambda path: (path.count("/"), path))
    for path in paths[:FILES]:
        with os.fdopen(open_plain(root, path), "rb") as stream:
            text = stream.read(LARGEST).decode(errors="replace")
        yield from _split(path, text)


def _is_documentation(path: str) -> bool:
    name = PurePosixPath(path)
    stem = name.stem.lower()
    if stem in OMITTED:
        return False
    return name.suffix.lower() in ENDINGS or (stem in NAMES and name.suffix in ("", ".txt"))


def _split(path: str, text: str) -> Iterator[Section]:
    """Split a page at its headings; a fence of code has none."""
    lines, heading, start, fenced = text.splitlines(), "", 0, False
    for at, line in enumerate(lines):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        found = None if fenced else _heading(lines, at)
        if found is not None:
            yield from _section(path, heading, lines[start:at])
            heading, start = found, at
    yield from _section(path, heading, lines[start:])


def _section(path: str, heading: str, lines: list[str]) -> Iterator[Section]:
    text = "\n".join(lines).strip()
    if text:
        yield Section(path, heading, text)


def _heading(lines: list[str], at: int) -> str | None:
    if match := HEADING.match(lines[at]):
        return match["title"] or match["other"]
    line, below = lines[at].strip(), lines[at + 1 : at + 2]
    underlined = line and below and UNDERLINE.match(below[0]) and not UNDERLINE.match(line)
    return line if underlined and len(below[0]) >= len(line) else None


def _ranked(sections: list[Section], asked: set[str]) -> list[Section]:
    """Sections with words of the request, best first; without a request, the first of each file."""
    if not asked:
        return list({one.path: one for one in reversed(sections)}.values())[::-1]
    counts = [
        (len(asked & words(f"{one.path} {one.heading}")), len(asked & words(one.text)), one)
        for one in sections
    ]
    # A word of the heading says more than one of the text. A stable sort: of equal ones, the
    # section nearest to the root comes first.
    ranked = sorted(counts, key=lambda found: -(2 * found[0] + found[1]))
    return [one for in_heading, in_text, one in ranked if in_heading or in_text]


def _within(sections: list[Section], budget: int) -> tuple[str, bool]:
    """The sections that fit the budget, whole."""
    text, cut = "", False
    for one in sections:
        longer = f"{text}{one.path}:\n{one.text}\n\n"
        if estimated(longer) > budget:
            cut = True
            continue
        text = longer
    return text.strip(), cut
