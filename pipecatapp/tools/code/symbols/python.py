"""Definitions of Python files, by libcst, whose import takes a tenth of the agent's start."""

from importlib import import_module

from pipecatapp.tools.code.symbols.definition import Definition

MODULE = "pipecatapp.tools.code.symbols.cst"
"""Imported at the first use."""


def parse_python(text: str) -> object:
    """Return the syntax tree of a file. Raises `SyntaxError`, also for one that nests too deep."""
    tree: object = import_module(MODULE).parse_python(text)
    return tree


def python_definitions(text: str) -> list[Definition]:
    """Return classes, functions and methods, in the order of the file. Raises `SyntaxError`."""
    module = import_module(MODULE)
    definitions: list[Definition] = module.python_definitions(text)
    return definitions
