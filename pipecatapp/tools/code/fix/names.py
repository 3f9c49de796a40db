"""Misspelt names and missing imports."""

import builtins
import difflib
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from types import ModuleType
from typing import Final

from pipecatapp.tools.code.fix.problem import Candidate, Problem

SIMILAR: Final = 0.6
"""The least likeness of a name that may have been meant (difflib's ratio)."""
TRIED: Final = 3
"""Names that are tried in place of one."""
NAME: Final = re.compile(
    r"name '(\w+)' is not defined|free variable '(\w+)'|variable '(\w+)' where"
)
ATTRIBUTE: Final = re.compile(r"^(?:module )?'?([\w.]+)'?.* has no attribute '(\w+)'")
IMPORT: Final = re.compile(r"cannot import name '(\w+)' from '([\w.]+)'")
MODULE: Final = re.compile(r"No module named '([\w.]+)'")
KEYWORD: Final = re.compile(r"unexpected keyword argument '(\w+)'")
KEY: Final = re.compile(r"""^(['"])(.+)\1$""")
WORD: Final = re.compile(r"[^\W\d]\w*")
ATTRIBUTE_USED: Final = re.compile(r"(?:\.|\bdef |\bself\.|\bclass )([^\W\d]\w*)")
TEXT: Final = re.compile(r"""'([^'\\\n]+)'|"([^"\\\n]+)\"""")
DEFINED: Final = re.compile(
    r"^(?:async def|def|class) (\w+)|^(\w+)(?::[^=\n]+)? *=[^=]", re.MULTILINE
)
IMPORTED: Final = re.compile(r"^(?:from [\w.]+ )?import .+$", re.MULTILINE)


def missing_imports(problem: Problem) -> Iterator[Candidate]:
    """Import a name that is not defined: as other files do, a module, or from the project."""
    name = _undefined(problem)
    if not name:
        return
    found = [
        match[0]
        for path, text in sorted(problem.files.items())
        if path != problem.path
        for match in IMPORTED.finditer(text)
        if "(" not in match[0] and _imports(match[0], name)
    ]
    if name in sys.stdlib_module_names or f"{name}.py" in problem.files:
        found.append(f"import {name}")
    for path, text in sorted(problem.files.items()):
        if path != problem.path and name in _defined(text) and not _is_test(path):
            found.append(f"from {_module(path)} import {name}")
    at = _first_statement(problem.lines)
    for statement in dict.fromkeys(found):
        yield problem.inserted("import", statement, line=at)


def similar_names(problem: Problem) -> Iterator[Candidate]:
    """Replace a name that is not defined by one of the file."""
    if name := _undefined(problem):
        words = {*WORD.findall(problem.files[problem.path]), *dir(builtins)}
        yield from _replaced(problem, "name", rf"(?<![\w.]){name}\b", name, words)


def similar_attributes(problem: Problem) -> Iterator[Candidate]:
    """Replace an attribute that an object does not have by one that the project uses."""
    if found := ATTRIBUTE.search(problem.error.message):
        owner, name = found.groups()
        kind = getattr(builtins, owner, _standard_module(owner))
        words = {word for text in problem.files.values() for word in ATTRIBUTE_USED.findall(text)}
        words |= _defined(problem.files.get(f"{owner.replace('.', '/')}.py", ""))
        given = words if kind is None else dir(kind)
        yield from _replaced(problem, "attribute", rf"(?<=\.){name}\b", name, given)


def similar_imports(problem: Problem) -> Iterator[Candidate]:
    """Replace a name or module that cannot be imported."""
    message = problem.error.message
    if found := IMPORT.search(message):
        name, module = found.groups()
        path = module.replace(".", "/")
        text = problem.files.get(f"{path}.py") or problem.files.get(f"{path}/__init__.py") or ""
        words = {*_defined(text), *dir(_standard_module(module) or object())}
        yield from _replaced(problem, "import", rf"\b{name}\b", name, words)
    elif found := MODULE.search(message):
        name = found[1]
        modules = {_module(path) for path in problem.files if not _is_test(path)}
        yield from _replaced(problem, "import", rf"\b{re.escape(name)}\b", name,
                             modules | sys.stdlib_module_names)  # fmt: skip


def similar_keys(problem: Problem) -> Iterator[Candidate]:
    """Replace a key or keyword that is not there by one of the project."""
    if problem.error.type == "KeyError" and (found := KEY.match(problem.error.message)):
        words = {
            one or other for text in problem.files.values() for one, other in TEXT.findall(text)
        }
        pattern = rf"(?<=['\"]){re.escape(found[2])}(?=['\"])"
        yield from _replaced(problem, "key", pattern, found[2], words)
    elif found := KEYWORD.search(problem.error.message):
        words = {word for text in problem.files.values() for word in WORD.findall(text)}
        yield from _replaced(problem, "argument", rf"\b{found[1]}(?= *=)", found[1], words)


def _standard_module(name: str) -> ModuleType | None:
    """Return a module of the standard library if it is loaded; importing one may do anything."""
    return sys.modules.get(name) if name in sys.stdlib_module_names else None


def _undefined(problem: Problem) -> str:
    found = NAME.search(problem.error.message)
    return next(filter(None, found.groups()), "") if found else ""


def _replaced(
    problem: Problem, kind: str, pattern: str, name: str, words: Iterable[str]
) -> Iterator[Candidate]:
    """Replace what fits the pattern in the line of the error by each similar word."""
    if not re.search(pattern, problem.wrong):
        return
    others = sorted(word for word in words if word != name and not word.startswith("__"))
    for word in difflib.get_close_matches(name, others, TRIED, SIMILAR):
        yield problem.changed(kind, re.sub(pattern, lambda _: word, problem.wrong))  # noqa: B023


def _imports(statement: str, name: str) -> bool:
    """Whether a statement binds the name."""
    names = statement.rpartition("import ")[2].split(",")
    return any((one.split(" as ")[-1] if " as " in one else one).strip() == name for one in names)


def _defined(text: str) -> set[str]:
    return {one or other for one, other in DEFINED.findall(text)}


def _module(path: str) -> str:
    parts = PurePosixPath(path).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def _is_test(path: str) -> bool:
    name = PurePosixPath(path).name
    return name.startswith(("test_", "conftest")) or name.endswith("_test.py")


def _first_statement(lines: list[str]) -> int:
    """Return the line of the first statement, docstring and `__future__` aside."""
    quoted = ""
    for number, line in enumerate(lines, 1):
        if quoted:
            quoted = "" if quoted in line else quoted
        elif line.startswith(('"""', "'''")):
            quoted = "" if line.count(line[:3]) > 1 else line[:3]
        elif line.strip() and not line.startswith(("#", "from __future__")):
            return number
    return len(lines) + 1
