"""YAML 1.2 as documents use it: plain values, each with its place, and nothing that surprises.

No aliases, no merge keys, no tags, no second document, no key twice, no key that other YAML
programs read as a boolean.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from pipecatapp.workflow.document.diagnostic import Diagnostic, InvalidDocument

Path = tuple[str | int, ...]
LARGEST = 512 * 1024
"""Characters a document may have."""
DEEPEST = 100
"""Brackets that may be open at a place."""
_TAG = "tag:yaml.org,2002:"
_CONFUSED = {"on", "off", "yes", "no"}


@dataclass
class Source:
    """The positions of all parts of a document."""

    file: str
    lines: list[str]
    keys: dict[Path, tuple[int, int]] = field(default_factory=dict)
    values: dict[Path, tuple[int, int]] = field(default_factory=dict)

    def diagnostic(
        self, path: Path, message: str, mend: str = "", *, key: bool = False
    ) -> Diagnostic:
        """A fault at the value that `path` leads to (or at its key); at the nearest thing around it
        when it has none.
        """
        places = self.keys if key else self.values
        while path and path not in places:
            path, places = path[:-1], self.values
        return self.at(*places.get(path, (0, 0)), message, mend)

    def at(self, line: int, column: int, message: str, mend: str = "") -> Diagnostic:
        """A fault at a place counted from 0."""
        text = self.lines[line][column:].strip()[:120] if line < len(self.lines) else ""
        return Diagnostic(self.file, line + 1, column + 1, message, mend, text)


def read_yaml(text: str, *, file: str) -> tuple[Any, Source]:
    """The values of a document and their places; raises `InvalidDocument` with every fault."""
    source = Source(file, text.splitlines())
    if fault := _unreadable(text, source):
        raise InvalidDocument([fault])
    reading = _Reading(source)
    try:
        node = YAML(typ="safe", pure=True).compose(text)
        value = None if node is None else reading.value(node, ())
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line, mark.column) if mark else (0, 0)
        raise InvalidDocument([source.at(line, column, f"not YAML: {error.problem}")]) from error
    except YAMLError as error:
        raise InvalidDocument(
            [source.at(0, 0, f"not YAML: {str(error).splitlines()[0]}")]
        ) from error
    except RecursionError as error:
        raise InvalidDocument([source.at(0, 0, "nested too deeply")]) from error
    if reading.faults:
        raise InvalidDocument(reading.faults)
    return value, source


def _unreadable(text: str, source: Source) -> Diagnostic | None:
    """Return the reason why a text cannot be parsed: its size, its nesting (for which the scanner
    takes quadratic time), or a directive that would change the syntax.
    """
    if len(text) > LARGEST:
        return source.at(0, 0, f"the document is longer than {LARGEST} characters")
    for number, line in enumerate(source.lines):
        if line.startswith("%"):
            return source.at(number, 0, "YAML directives are not allowed", "Remove the line")
    depth = 0
    for letter in text:
        depth += (letter in "[{") - (letter in "]}")
        if depth > DEEPEST:
            return source.at(0, 0, "nested too deeply")
    return None


class _Reading:
    """Turns nodes into values and collects faults on the way."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.faults: list[Diagnostic] = []
        self._seen: set[int] = set()

    def value(self, node: Node, path: Path) -> Any:
        place = (node.start_mark.line, node.start_mark.column)
        self.source.values[path] = place
        if node.anchor:
            self._fault(
                node,
                f"anchors and aliases are not allowed: &{node.anchor}",
                "Write the value out where it is used",
            )
        if id(node) in self._seen:
            return None
        self._seen.add(id(node))
        if not isinstance(node, ScalarNode) and node.tag not in (_TAG + "map", _TAG + "seq"):
            self._fault(node, f"the tag {node.tag} is not allowed", "Write the plain value")
        if isinstance(node, MappingNode):
            return self._mapping(node, path)
        if isinstance(node, SequenceNode):
            return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
        return self._scalar(node)

    def _mapping(self, node: MappingNode, path: Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, ScalarNode):
                self._fault(
                    key_node,
                    "an object cannot be a key",
                    'Put an expression in quotes: "{{ … }}"',
                )
                continue
            key = str(key_node.value)
            if fault := _key_fault(key_node, found):
                self._fault(key_node, *fault)
            self.source.keys[(*path, key)] = (key_node.start_mark.line, key_node.start_mark.column)
            found[key] = self.value(value_node, (*path, key))
        return found

    def _scalar(self, node: Node) -> Any:
        make = _SCALARS.get(str(node.tag))
        if make is None:
            self._fault(node, f"the tag {node.tag} is not allowed", "Write the plain value")
            return None
        try:
            return make(node.value)
        except ValueError:
            self._fault(
                node, f"{node.value!r} is not a number that JSON knows", "Quote it if it is a text"
            )
            return None

    def _fault(self, node: Node, message: str, mend: str = "") -> None:
        self.faults.append(
            self.source.at(node.start_mark.line, node.start_mark.column, message, mend)
        )


def _key_fault(node: ScalarNode, found: Mapping[str, Any]) -> tuple[str, str] | None:
    key = str(node.value)
    if node.tag == _TAG + "merge":
        return "merge keys are not allowed", "Write the keys out"
    if key.lower() in _CONFUSED:
        return (
            f"no key is called {key!r}: many YAML programs read it as true or false",
            "Choose another name",
        )
    if key in found:
        return f"the key {key!r} is here twice", "Keep one of them"
    if node.tag != _TAG + "str":
        return f"the key {key!r} is not a text", "Choose a name that is a word"
    return None


def _integer(text: str) -> int:
    digits = text.replace("_", "")
    return int(digits, 0 if digits.lstrip("+-")[:2].lower() in ("0o", "0x") else 10)


def _float(text: str) -> float:
    value = float(text.replace("_", ""))
    if not math.isfinite(value):
        raise ValueError(text)
    return value


_SCALARS: Mapping[str, Callable[[str], Any]] = {
    _TAG + "str": str,
    _TAG + "timestamp": str,
    _TAG + "null": lambda _text: None,
    _TAG + "bool": lambda text: text.lower() == "true",
    _TAG + "int": _integer,
    _TAG + "float": _float,
}
