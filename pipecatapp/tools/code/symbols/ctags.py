"""Definitions of files in other languages than Python, by universal-ctags in the sandbox."""

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any, Final

from hearth.service.ephemeral import scratch
from pipecatapp.sandbox import Limits, Mount, Sandbox, SandboxUnusable
from pipecatapp.sandbox.leftovers import guard
from pipecatapp.sandbox.tree import remove
from pipecatapp.tools.code.symbols.definition import Definition, Kind
from pipecatapp.workflow import Context, ToolFailed

LANGUAGES: Final = "C,C++,C#,JavaScript,TypeScript,Go,Rust,Java,SQL,Sh"
SUFFIXES: Final = frozenset(
    {
        ".c", ".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx", ".cs", ".js", ".mjs", ".cjs",
        ".jsx", ".ts", ".mts", ".tsx", ".go", ".rs", ".java", ".sql", ".sh", ".bash",
    }
)  # fmt: skip
KINDS: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        "class": "class", "function": "function", "func": "function", "method": "method",
        "struct": "struct", "union": "union", "typedef": "typedef", "alias": "typedef",
        "enum": "enum", "interface": "interface", "trait": "interface", "generator": "function",
        "namespace": "namespace", "table": "table", "view": "table", "procedure": "function",
    }
)  # fmt: skip
SCOPES: Final = frozenset({"class", "struct", "interface", "implementation", "trait", "union"})
"""Functions inside these are methods."""
LIMITS: Final = Limits(seconds=30, kept=16 << 20)
MISSING: Final = (
    "Definitions of this language are found by universal-ctags, which is not installed: run"
    " `apt-get install universal-ctags`."
)


def known(path: str) -> bool:
    """Whether the language of a file is one of those."""
    return PurePosixPath(path).suffix.lower() in SUFFIXES


async def definitions_in_text(ctx: Context, path: str, text: str) -> list[Definition]:
    """The definitions of a text that is, or would be, the file `path`. Raises `ToolFailed`."""
    guard.watch()
    with scratch(f"{guard.mark}-tags", remove) as folder:
        name = f"source{PurePosixPath(path).suffix.lower()}"
        (folder / name).write_text(text, encoding="utf-8")
        tags = await _tags(ctx, folder, [name], [])
    return [one for tag in tags if (one := _definition(tag, text.split("\n"))) is not None]


async def definitions_in_files(
    ctx: Context, root: Path, paths: Sequence[str]
) -> dict[str, list[Definition]]:
    """The definitions of files below `root`, by path. Raises `ToolFailed`."""
    if not paths:
        return {}
    guard.watch()
    with scratch(f"{guard.mark}-tags", remove) as folder:
        names = [f"/source/{path}" for path in paths]
        tags = await _tags(ctx, folder, names, [Mount(root, "/source")])
    found: dict[str, list[Definition]] = {}
    for tag in tags:
        path = str(tag["path"]).removeprefix("/source/")
        if (one := _definition(tag, ())) is not None:
            found.setdefault(path, []).append(one)
    return found


async def _tags(
    ctx: Context, folder: Path, names: Sequence[str], mounts: Sequence[Mount]
) -> list[dict[str, Any]]:
    program = shutil.which("ctags-universal")
    if program is None:
        raise ToolFailed(MISSING)
    # Without `--options=NONE` ctags would take options from a file of the workspace.
    words = [program, "--options=NONE", "--output-format=json", "--fields=+neKSlZ", "--sort=no"]
    words += [f"--languages={LANGUAGES}", "-f", "-", "-L", "-"]
    try:
        ended = await ctx.service(Sandbox).run(
            words, folder, limits=LIMITS, mounts=mounts, stdin="\n".join((*names, "")).encode()
        )
    except SandboxUnusable as error:
        raise ToolFailed(str(error)) from error
    if ended.exit_code != 0 or ended.stdout.cut:
        why = ended.stopped or ended.stderr.text.strip()[-200:] or "its output is too long"
        raise ToolFailed(f"ctags cannot read the files: {why}.")
    lines = [json.loads(line) for line in ended.stdout.text.splitlines() if line.startswith("{")]
    return [line for line in lines if line.get("_type") == "tag"]


def _definition(tag: Mapping[str, Any], lines: Sequence[str]) -> Definition | None:
    kind = KINDS.get(str(tag.get("kind", "")))
    if kind is None:
        return None
    scope = re.sub(r"::", ".", str(tag.get("scope", "")))
    if tag.get("language") == "Go":
        scope = scope.partition(".")[2]
    if kind == "function" and tag.get("scopeKind") in SCOPES and scope:
        kind = "method"
    line = int(tag["line"])
    return Definition(
        name=str(tag["name"]),
        qualified=f"{scope}.{tag['name']}" if scope else str(tag["name"]),
        kind=kind,
        start=_first(lines, line) if lines else line,
        line=line,
        end=int(tag["end"]) if "end" in tag else None,
    )


def _first(lines: Sequence[str], line: int) -> int:
    """Return the first line of the definition whose name is on `line`.

    A return type, template parameters, annotations and attributes may precede the name.
    """
    first = line
    while first > 1 and _belongs(lines[first - 2].strip()):
        first -= 1
    return first


def _belongs(above: str) -> bool:
    if above.startswith(("@", "[", "#[")):
        return True
    if not above or above.startswith(("#", "//", "/*", "*", "--")):
        return False
    return not above.endswith((";", "{", "}", ":", ",", ")", "*/"))
