"""The tool that checks sizes of files and folders, import cycles, and rules between folders."""

import asyncio
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path, PurePosixPath
from typing import Annotated, Final, Literal

from pydantic import BaseModel, Field

from pipecatapp.sandbox.tree import TooLarge, open_plain, walk
from pipecatapp.tools.check.imports import Import, imports_of
from pipecatapp.tools.code.edit.paths import fits
from pipecatapp.tools.code.language.languages import SOURCE_NAMES
from pipecatapp.tools.files.place import workspace
from pipecatapp.tools.project.facts import DEPTH, SKIPPED
from pipecatapp.workflow import BY_AUTHOR, Context, ToolFailed, tool

LARGEST: Final = 1 << 20
"""Bytes of a file that is read; a larger one is too long in any case."""
FILES: Final = 5000
LISTED: Final = 200


class FolderRule(BaseModel):
    """Files that fit `files` must not import files that fit `never`."""

    files: str = Field(description="A pattern such as `api/**`.")
    never: str = Field(description="A pattern such as `cli/**`.")


class StructureProblem(BaseModel):
    """A violation of a rule."""

    kind: Literal["lines", "folder", "cycle", "rule"]
    path: str = Field(description="The file or folder.")
    line: int | None = Field(description="The line of the import, if there is one.")
    message: str


class Structure(BaseModel):
    """Whether the project keeps its rules."""

    ok: bool = Field(description="Whether there is no problem.")
    problems: list[StructureProblem] = Field(description="Kind, path, line and message of each.")
    left_out: int = Field(description="How many more problems there are.")
    files: int = Field(description="Source files that were checked.")


@tool("check.structure", effect="read", version=1, workspace=True)
async def structure(
    ctx: Context,
    lines: Annotated[
        int, BY_AUTHOR, Field(description="Lines of a source file at most.", ge=1)
    ] = 500,
    files: Annotated[
        int, BY_AUTHOR, Field(description="Source files of one folder at most.", ge=1)
    ] = 40,
    rules: Annotated[
        list[FolderRule],
        BY_AUTHOR,
        Field(description="Imports that are not allowed: `files` never import `never`."),
    ] = [],  # noqa: B006
    ignored: Annotated[
        list[str], BY_AUTHOR, Field(description="Patterns of files that are not checked.")
    ] = [],  # noqa: B006
) -> Structure:
    """Check the sizes of source files and folders, import cycles, and which folders import which.

    Imports are read in Python, and relative ones in JavaScript and TypeScript. Nothing is run.
    """
    root = workspace(ctx)
    try:
        texts = await asyncio.to_thread(_texts, root, ignored)
    except (OSError, TooLarge) as error:
        raise ToolFailed(f"The workspace cannot be read: {error}.") from error
    imports = await asyncio.to_thread(imports_of, texts)
    problems = [
        *_sizes(texts, lines, files),
        *_cycles(imports),
        *_against(imports, rules),
    ]
    return Structure(
        ok=not problems,
        problems=problems[:LISTED],
        left_out=max(0, len(problems) - LISTED),
        files=len(texts),
    )


def _texts(root: Path, ignored: Sequence[str]) -> dict[str, str]:
    """The source files by path. Raises `TooLarge` for more than `FILES`."""
    texts: dict[str, str] = {}
    for entry in walk(root, depth=DEPTH, skip=SKIPPED):
        path = entry.path
        known = PurePosixPath(path).suffix.lower() in SOURCE_NAMES
        if not entry.is_file or not known or any(fits(path, one) for one in ignored):
            continue
        if len(texts) == FILES:
            raise TooLarge(f"it has more than {FILES} source files")
        with os.fdopen(open_plain(root, path), "rb") as stream:
            texts[path] = stream.read(LARGEST).decode(errors="replace")
    return dict(sorted(texts.items()))


def _sizes(texts: Mapping[str, str], lines: int, files: int) -> Iterator[StructureProblem]:
    for path, text in texts.items():
        if (count := len(text.splitlines())) > lines:
            message = f"{path} has {count} lines, at most {lines}: split it."
            yield StructureProblem(kind="lines", path=path, line=None, message=message)
    folders = Counter(str(PurePosixPath(path).parent) for path in texts)
    for folder, count in sorted(folders.items()):
        if count > files:
            message = f"{folder} has {count} source files, at most {files}: make subfolders."
            yield StructureProblem(kind="folder", path=folder, line=None, message=message)


def _cycles(imports: Mapping[str, Sequence[Import]]) -> Iterator[StructureProblem]:
    """Yield cycles until none is left, each one with an import that closes it."""
    graph = {path: dict.fromkeys(file for _, file in found) for path, found in imports.items()}
    while True:
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            # Each file of the list is imported by the next one.
            cycle = list(reversed(error.args[1]))
            first, second = cycle[0], cycle[1]
            line = next(line for line, file in imports[first] if file == second)
            message = f"These files import each other: {' → '.join(cycle)}."
            yield StructureProblem(kind="cycle", path=first, line=line, message=message)
            del graph[first][second]
        else:
            return


def _against(
    imports: Mapping[str, Sequence[Import]], rules: Sequence[FolderRule]
) -> Iterator[StructureProblem]:
    for rule in rules:
        for path, found in imports.items():
            if not fits(path, rule.files):
                continue
            for line, file in found:
                if fits(file, rule.never):
                    message = f"{path} imports {file}: {rule.files} must not import {rule.never}."
                    yield StructureProblem(kind="rule", path=path, line=line, message=message)
