"""Whether a file still parses."""

import ast
import json
import tomllib
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Final

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from pipecatapp.tools.code.edit.refusal import Refused
from pipecatapp.tools.code.symbols.python import parse_python

Parser = Callable[[str], object]


def check_syntax(path: str, old: str | None, new: str, at: int) -> None:
    """Refuse a result that does not parse, where the file did before or is new.

    Raises `Refused` with the parser's message.
    """
    parsers = PARSERS.get(PurePosixPath(path).suffix.lower(), ())
    if not parsers or not new.strip():
        return
    if old is not None and old.strip():
        # Use only the parsers that accept the old file: libcst alone parses newer Python.
        parsers = tuple(parse for parse in parsers if _error(parse, old) is None)[:1]
    errors = [_error(parse, new) for parse in parsers]
    if errors and None not in errors:
        raise Refused("does_not_parse", f"The changed {path} does not parse: {errors[0]}.", at=at)


def data_error(path: str, text: str) -> str | None:
    """The message of the parser of a JSON, TOML or YAML file; None if it parses."""
    (parse,) = PARSERS[PurePosixPath(path).suffix.lower()]
    return _error(parse, text)


def _error(parse: Parser, text: str) -> str | None:
    try:
        parse(text)
    except (SyntaxError, ValueError, YAMLError, RecursionError, MemoryError) as error:
        return " ".join(str(error).split())[:300] or type(error).__name__
    return None


def _yaml(text: str) -> None:
    for _ in YAML(typ="safe", pure=True).parse(text):
        pass


PARSERS: Final[Mapping[str, tuple[Parser, ...]]] = MappingProxyType(
    {
        ".py": (ast.parse, parse_python),
        ".pyi": (ast.parse, parse_python),
        ".json": (json.loads,),
        ".toml": (tomllib.loads,),
        ".yaml": (_yaml,),
        ".yml": (_yaml,),
    }
)
