"""Tools written by users: Python files in the folder `tools` of the state directory.

They run with all permissions of this service, like the code in `pipecatapp/tools`; only the owner
of the state directory can add them.
"""

import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Final

import structlog

from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Tool

log = structlog.get_logger()

WRONG: Final = (
    *(ImportError, SyntaxError, NameError, AttributeError, TypeError, ValueError),
    *(LookupError, ArithmeticError, AssertionError, OSError, RuntimeError),
)
"""Errors that the code of a file can raise while it is loaded."""


def plugins(folder: Path) -> list[Tool]:
    """Load all tools of all files, in the order of their names.

    A file that cannot be loaded, or that defines a tool with an existing name, is ignored and
    logged with the reason: an error must not prevent the service from working.
    """
    found: dict[str, Tool] = {}
    for file in sorted(folder.glob("[!._]*.py")):
        try:
            tools = {tool.name: tool for tool in _tools_of(_loaded(file))}
            if taken := sorted(tools.keys() & {*TOOLS, *found, "agent"}):
                raise ImportError(f"there is a tool {taken[0]!r} already")
            if not tools:
                raise ImportError("no function in it is a @tool")
        except WRONG as error:
            log.warning("tool_left_out", file=str(file), reason=f"{type(error).__name__}: {error}")
        else:
            found |= tools
    return list(found.values())


def _loaded(file: Path) -> ModuleType:
    name = f"hearth_tools_{file.stem}"
    spec = spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is not valid Python")
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _tools_of(module: ModuleType) -> Iterator[Tool]:
    yield from (value for value in vars(module).values() if isinstance(value, Tool))
