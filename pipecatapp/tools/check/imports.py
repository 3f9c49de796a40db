"""Which files of a project import which others."""

import ast
import posixpath
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Final

Import = tuple[int, str]
"""A line and the imported file."""

SCRIPTS: Final = (".js", ".mjs", ".cjs", ".jsx", ".ts", ".tsx")
RELATIVE: Final = re.compile(
    r"""(?:\bfrom\s*|\bimport\s*\(?\s*|\brequire\s*\(\s*)['"](\.[^'"]+)['"]"""
)


def imports_of(texts: Mapping[str, str]) -> dict[str, list[Import]]:
    """Return for each Python, JavaScript and TypeScript file the project's files that it imports.

    A file that does not parse imports nothing. Imports inside functions, which are made when the
    function runs, and those for type checkers count as well.
    """
    modules = _modules(texts)
    found: dict[str, list[Import]] = {}
    for path, text in texts.items():
        if path.endswith(".py"):
            named = ((line, _file(modules, name)) for line, name in _python(path, text, modules))
        elif path.endswith(SCRIPTS):
            named = ((line, _script(texts, path, name)) for line, name in _scripts(text))
        else:
            continue
        unique = dict.fromkeys((line, file) for line, file in named if file and file != path)
        found[path] = list(unique)
    return found


def _modules(texts: Mapping[str, str]) -> dict[str, str]:
    """The module names of all Python files; a folder `src` is a root as well."""
    modules: dict[str, str] = {}
    for path in texts:
        if path.endswith(".py"):
            name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            modules[name] = path
            modules.setdefault(name.removeprefix("src."), path)
    return modules


def _file(modules: Mapping[str, str], name: str) -> str | None:
    """The file of a module, or of the innermost package that holds the name."""
    return modules.get(name) or modules.get(name.rpartition(".")[0])


def _python(path: str, text: str, modules: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    """Yield the line and the full name of everything that is imported."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    package = PurePosixPath(path).parent.parts
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, one.name) for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join([*above, *([node.module] if node.module else [])])
            for one in node.names:
                full = f"{base}.{one.name}" if base else one.name
                # `from package import name` imports the package only if the name is not a module.
                yield node.lineno, full if full in modules else base


def _scripts(text: str) -> Iterator[tuple[int, str]]:
    for match in RELATIVE.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match[1]


def _script(texts: Mapping[str, str], path: str, name: str) -> str | None:
    """The file that a relative import names, with or without its ending, or an index file."""
    place = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
    endings = ("", *SCRIPTS, *(f"/index{ending}" for ending in SCRIPTS))
    return next((f"{place}{end}" for end in endings if f"{place}{end}" in texts), None)
