"""Parses source files without running them. Runs in the sandbox.

    python -I parsers.py GRAMMARS <lines of JSON: {"path": …, "by": …}

`by` is python, node, bash, sh, sqlite or grammar. Prints a line of JSON for each file: its `path`
and the `output` of its parser: empty if the file parses, null if there is no such parser.
"""

import importlib
import json
import re
import shutil
import sqlite3
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

SECONDS = 20
"""Time for one file."""
NOT_SYNTAX = re.compile(r"no such |already exists|unknown database|duplicate column|has no column")
"""Messages of SQLite about a statement that parses: no statement before it was run."""
COMMENTS = re.compile(r"\s*(--[^\n]*\n\s*|/\*.*?\*/\s*)*", re.DOTALL)


def python(path: str) -> str:
    """Compile a file; the code is not run."""
    try:
        compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return "".join(traceback.format_exception_only(error))
    return ""


def program(*words: str) -> Callable[[str], str | None]:
    """Return a check by a program that only parses."""

    def check(path: str) -> str | None:
        if shutil.which(words[0]) is None:
            return None
        ended = subprocess.run(
            [*words, f"./{path}"], capture_output=True, check=False, timeout=SECONDS
        )
        text = ended.stderr.decode(errors="replace")
        return (text or f"{words[0]}: exit code {ended.returncode}") if ended.returncode else ""

    return check


def sqlite(path: str) -> str:
    """Let SQLite parse each statement in an empty database in memory, without running it."""
    text = Path(path).read_text(encoding="utf-8", errors="replace")
    with sqlite3.connect(":memory:") as database:
        for line, statement in statements(text):
            try:
                database.execute(f"EXPLAIN {statement}")
            except sqlite3.Error as error:
                if not NOT_SYNTAX.search(str(error)):
                    return f"Parse error near line {line}: {error}"
    return ""


def statements(text: str) -> Iterator[tuple[int, str]]:
    """Yield each statement with its first line. Commands of the sqlite3 shell are blank lines."""
    text = re.sub(r"^\.[a-z][^\n]*$", "", text, flags=re.MULTILINE)
    line, statement = 1, ""
    for piece in re.split(r"(?<=;)", text):
        statement += piece
        if not sqlite3.complete_statement(statement):
            continue
        start = COMMENTS.match(statement)
        begin = start.end() if start else 0
        if statement[begin:].strip(" ;\n"):
            yield line + statement.count("\n", 0, begin), statement[begin:]
        line, statement = line + statement.count("\n"), ""
    start = COMMENTS.match(f"{statement}\n")
    begin = start.end() if start else 0
    if statement[begin:].strip():
        yield line + statement.count("\n", 0, begin), statement[begin:]


def grammar(path: str) -> str | None:
    """Find the first place that a tree-sitter grammar does not know."""
    # Only the sandbox has this module beside this one, and the grammars.
    parser = importlib.import_module("tagger").Languages().parser(path)
    if parser is None:
        return None
    node: Node | None = parser.parse(Path(path).read_bytes()).root_node
    line = 0
    while node is not None and node.has_error:
        line = node.start_point[0] + 1
        node = next((one for one in node.children if one.has_error or one.is_missing), None)
    return f"{path}:{line}: the grammar does not know this" if line else ""


CHECKS: dict[str, Callable[[str], str | None]] = {
    "python": python,
    "node": program("node", "--check"),
    "bash": program("bash", "-n"),
    "sh": program("/bin/sh", "-n"),
    "sqlite": sqlite,
    "grammar": grammar,
}

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parent), sys.argv[1]]
    for one in map(json.loads, sys.stdin):
        try:
            output = CHECKS[one["by"]](one["path"])
        except (OSError, subprocess.TimeoutExpired):
            output = None
        sys.stdout.write(json.dumps({"path": one["path"], "output": output}) + "\n")
        sys.stdout.flush()
