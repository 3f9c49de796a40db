"""The check node for syntax: whether the files of a project parse, without running them."""

import asyncio
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Annotated, Final

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from hearth.service.ephemeral import scratch
from pipecatapp.sandbox import Limits, Mount, Sandbox, SandboxUnusable
from pipecatapp.sandbox.bubblewrap import python
from pipecatapp.sandbox.leftovers import guard
from pipecatapp.sandbox.tree import TooLarge, open_plain, remove, walk
from pipecatapp.tools.code.edit.syntax import data_error
from pipecatapp.tools.code.errors import ProgramError, error_of
from pipecatapp.tools.code.errors.result import frame, program_error
from pipecatapp.tools.code.language.identify import READ, identify
from pipecatapp.tools.code.map.tags import TAGGER, grammar_mounts
from pipecatapp.tools.files.place import inside, workspace
from pipecatapp.tools.project.facts import DEPTH, SKIPPED
from pipecatapp.workflow import Context, ToolFailed, tool

PARSERS: Final = Path(__file__).with_name("parsers.py")
FILES: Final = 500
"""Files of one call."""
LARGEST: Final = 1 << 20
"""Bytes of a file that is parsed."""
LIMITS: Final = Limits(seconds=120, kept=16 << 20)
DATA: Final = frozenset({"JSON", "TOML", "YAML"})
BY: Final = {"Python": "python", "SQL": "sqlite"}
NODE: Final = (".js", ".mjs", ".cjs", "")
"""JavaScript that Node.js runs; it has no parser for JSX."""
LINE: Final = re.compile(r"\bline (\d{1,9})\b")
Output = TypeAdapter(tuple[str, str | None])


class SyntaxProblem(BaseModel):
    """A file that does not parse."""

    path: str
    language: str
    line: int | None = Field(description="Counted from 1.")
    message: str
    certain: bool = Field(description="False if only a grammar of tree-sitter reports it.")


class SyntaxChecked(BaseModel):
    """The result of a syntax check."""

    ok: bool = Field(description="Whether no file certainly fails to parse.")
    problems: list[SyntaxProblem] = Field(description="The first problem of each file.")
    error: ProgramError | None = Field(
        description="The first certain problem in the form of code.run."
    )
    checked: list[str] = Field(description="Files that were parsed.")
    unchecked: list[str] = Field(
        description="Files that are missing, too large, or of a language without a parser here."
    )
    cut: bool = Field(description="Whether there are more files than one call checks.")


@tool("check.syntax", effect="read", version=1, workspace=True)
async def syntax(
    ctx: Context,
    files: Annotated[
        list[str], Field(description="The files to check; empty for all of the workspace.")
    ] = [],  # noqa: B006
) -> SyntaxChecked:
    """Check whether source files parse, without running them.

    Python, JavaScript (Node.js), shell, SQL as SQLite reads it, JSON, TOML and YAML; for other
    languages tree-sitter reports places that its grammar does not know.
    """
    root = workspace(ctx)
    try:
        paths = await asyncio.to_thread(_paths, root, files)
        sources = await asyncio.to_thread(_sources, root, paths[:FILES])
    except (OSError, TooLarge) as error:
        raise ToolFailed(f"The workspace cannot be read: {error}.") from error
    found = {path: one for path, (name, text) in sources.items() if name in DATA
             for one in [_of_data(path, name, text)]}  # fmt: skip
    outputs = await _parsed(ctx, root, {
        path: by for path, (name, text) in sources.items() if (by := _by(path, name, text))
    })  # fmt: skip
    for path, output in outputs.items():
        if output is not None:
            found[path] = _of_output(path, sources[path][0], output)
    return _result(found, [path for path in paths[:FILES] if path not in found], paths)


def _paths(root: Path, files: Sequence[str]) -> list[str]:
    """The named files, or all with a known language, at most one more than are checked."""
    if files:
        return list(dict.fromkeys(inside(root, path) for path in files))
    entries = (one.path for one in walk(root, depth=DEPTH, skip=SKIPPED) if one.is_file)
    known = (path for path in entries if identify(path).language is not None)
    return list(islice(known, FILES + 1))


def _sources(root: Path, paths: Iterable[str]) -> dict[str, tuple[str, str]]:
    """The language and the text of each file that can be read and has a known language."""
    found: dict[str, tuple[str, str]] = {}
    for path in paths:
        try:
            with os.fdopen(open_plain(root, path), "rb") as stream:
                data = stream.read(LARGEST + 1)
        except OSError:
            continue
        text = data.decode(errors="replace")
        language = identify(path, text[:READ]).language
        if language is not None and len(data) <= LARGEST:
            found[path] = (language.name, text)
    return found


def _by(path: str, language: str, text: str) -> str:
    """The parser of a file in the sandbox; empty if there is none."""
    if language == "Shell":
        first = text.partition("\n")[0]
        return "sh" if first.startswith("#!") and "bash" not in first else "bash"
    suffix = PurePosixPath(path).suffix.lower()
    if language == "JavaScript" and suffix in NODE:
        return "node"
    return BY.get(language) or ("" if language in DATA else "grammar")


async def _parsed(ctx: Context, root: Path, by: Mapping[str, str]) -> dict[str, str | None]:
    """The output of the parser of each file; None where there is no parser."""
    if not by:
        return {}
    mounts = [
        Mount(root, "/source"), Mount(PARSERS, "/hearth/parsers.py"),
        Mount(TAGGER, "/hearth/tagger.py"),
    ]  # fmt: skip
    if "grammar" in by.values():
        mounts += grammar_mounts()
    command = ["/bin/sh", "-c", 'cd /source && exec "$0" -I /hearth/parsers.py /grammars', python()]
    lines = "\n".join(json.dumps({"path": path, "by": one}) for path, one in by.items())
    guard.watch()
    with scratch(f"{guard.mark}-syntax", remove) as folder:
        try:
            ended = await ctx.service(Sandbox).run(
                command, folder, limits=LIMITS, mounts=mounts, stdin=lines.encode()
            )
        except SandboxUnusable as error:
            raise ToolFailed(str(error)) from error
    if ended.exit_code and not ended.stdout.text:
        last = (ended.stderr.text.strip().splitlines() or [f"exit code {ended.exit_code}"])[-1]
        raise ToolFailed(f"The source files cannot be parsed: {last[:200]}.")
    return dict(_printed(ended.stdout.text, by))


def _printed(text: str, by: Mapping[str, str]) -> Iterator[tuple[str, str | None]]:
    """Yield the output for each file of the request; other lines are ignored."""
    for line in text.splitlines():
        try:
            entry = json.loads(line)
            path, output = Output.validate_python((entry["path"], entry["output"]))
        except (ValueError, KeyError, TypeError, ValidationError):  # cut off
            continue
        if path in by:
            yield path, output


Found = tuple[SyntaxProblem, ProgramError] | None
"""The problem of a file, as such and as an error to repair; None if it parses."""


def _of_data(path: str, language: str, text: str) -> Found:
    message = data_error(path, text) if text.strip() else None
    if message is None:
        return None
    place = LINE.search(message)
    line = int(place[1]) if place else None
    error = program_error("SyntaxError", message, [frame(path, line)])
    return SyntaxProblem(
        path=path, language=language, line=line, message=message, certain=True
    ), error


def _of_output(path: str, language: str, output: str) -> Found:
    if not output:
        return None
    parsed = error_of(output, stdout="", exit_code=1, stopped=None)
    line = parsed.line if parsed is not None else None
    message = parsed.message if parsed is not None else output[:400]
    kind = parsed.type if parsed is not None else "SyntaxError"
    error = program_error(kind, message, [frame(path, line)])
    certain = "the grammar does not know this" not in output
    return SyntaxProblem(
        path=path, language=language, line=line, message=message, certain=certain
    ), error


def _result(
    found: Mapping[str, Found], unchecked: list[str], paths: Sequence[str]
) -> SyntaxChecked:
    pairs = [found[path] for path in sorted(found)]
    problems = [one for one in pairs if one is not None]
    certain = [error for problem, error in problems if problem.certain]
    return SyntaxChecked(
        ok=not certain,
        problems=[problem for problem, _ in problems],
        error=certain[0] if certain else None,
        checked=sorted(found),
        unchecked=unchecked,
        cut=len(paths) > FILES,
    )
