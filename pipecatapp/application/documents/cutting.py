"""Nodes of a document as ranges of lines, so that they are moved with their comments."""

import io
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from ruamel.yaml import YAML
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

_KEY: Final = re.compile(r"(\s*(?:- )?(?:steps|graph|else):)(\s*(?:#.*)?\n)")

Span = tuple[int, int]
"""From its first line, including comments directly above it, to the line after its last."""


def lines_of(text: str) -> list[str]:
    """Its lines with their ends, as YAML 1.2 counts them: `str.splitlines` would also end one at a
    U+2028, which texts of people hold, and the wrong lines would be cut.
    """
    return list(io.StringIO(text, newline="\n"))


def without(text: str, path: str) -> str | None:
    """Return the text without a node; None if it shares lines with another node. The last node of a
    list leaves `[]`.
    """
    found = _siblings(text, path)
    if found is None:
        return None
    lines, (start, end) = lines_of(text), found[0][found[1]]
    if len(found[0]) == 1:
        key = start - 1
        while key >= 0 and _beside(lines[key]):
            key -= 1
        if key < 0 or not (parts := _KEY.fullmatch(lines[key])):
            return None
        lines[key] = f"{parts[1]} []{parts[2]}"
    return "".join(lines[:start] + lines[end:])


def moved(text: str, path: str, after: int | None) -> str | None:
    """Return the text with a node after the sibling of that index, or first; None as above."""
    found = _siblings(text, path)
    if found is None:
        return None
    spans, index = found
    lines, (start, end) = lines_of(text), spans[index]
    if not lines[end - 1].endswith("\n"):
        lines[end - 1] += "\n"
    goal = spans[0][0] if after is None else spans[after][1]
    if start < goal:
        order = (lines[:start], lines[end:goal], lines[start:end], lines[goal:])
    else:
        order = (lines[:goal], lines[start:end], lines[goal:start], lines[end:])
    return "".join(line for part in order for line in part)


def _siblings(text: str, path: str) -> tuple[list[Span], int] | None:
    """The lines of every node of its list, and which of them it is."""
    lines, root = lines_of(text), YAML(typ="safe", pure=True).compose(text)
    found: tuple[SequenceNode, int] | None = None
    for name in path.split("/"):
        found = next((one for one in _nodes(root) if _id(one[0].value[one[1]]) == name), None)
        if found is None:
            return None
        root = found[0].value[found[1]]
    if found is None or found[0].flow_style:
        return None
    spans = [_span(lines, item) for item in found[0].value]
    apart = all(one[1] <= other[0] for one, other in pairwise(spans))
    return (spans, found[1]) if apart else None


def _nodes(
    holder: Node, keys: tuple[str, ...] = ("steps", "graph")
) -> Iterator[tuple[SequenceNode, int]]:
    for key, value in _pairs(holder):
        if key in keys and isinstance(value, SequenceNode):
            for index, item in enumerate(value.value):
                yield value, index
                yield from _nodes(item, ("else",))


def _pairs(node: Node) -> Iterator[tuple[str, Node]]:
    for key, value in node.value if isinstance(node, MappingNode) else ():
        yield str(key.value), value


def _id(node: Node) -> str:
    return next((str(value.value) for key, value in _pairs(node) if key == "id"), "")


def _span(lines: list[str], item: Node) -> Span:
    start, end = item.start_mark.line, min(item.end_mark.line + 1, len(lines))
    while end > start + 1 and (_beside(lines[end - 1]) or _outside(lines, end - 1, item)):
        end -= 1
    while start and lines[start - 1].lstrip().startswith("#"):
        start -= 1
    return start, end


def _beside(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def _outside(lines: list[str], number: int, item: Node) -> bool:
    """Return whether a block ends before the line of its end mark."""
    mark = item.end_mark
    return number == mark.line and not lines[number][: mark.column].strip()
