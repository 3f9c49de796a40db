"""The text of a map, within a budget of tokens."""

from collections.abc import Iterable
from typing import Final

from pipecatapp.tools.code.map.ranking import Graph, Place
from pipecatapp.tools.memory.tokens import estimated

INDENT: Final = "  "
MISSES: Final = 20
"""So many definitions in a row that do not fit: what comes after is hardly relevant."""


def fill(graph: Graph, ordered: Iterable[Place], budget: int) -> tuple[str, list[Place]]:
    """The text of as many definitions as fit, in their order, and those that it shows.

    The text lists them by file and line; a method is below its class.
    """
    shown: set[Place] = set()
    left, misses = budget, 0
    for place in ordered:
        new = [one for one in _with_scopes(graph, place) if one not in shown]
        size = sum(estimated(_line(graph, one)) for one in new)
        if not any(one[0] == place[0] for one in shown):
            size += estimated(_heading(place[0]))
        if size > left:
            misses += 1
            if misses == MISSES:
                break
            continue
        left, misses = left - size, 0
        shown.update(new)
    return _text(graph, shown), sorted(shown, key=lambda one: _order(graph, one))


def _with_scopes(graph: Graph, place: Place) -> list[Place]:
    """A definition after those that it is in."""
    path, index = place
    definitions = graph.files[path].definitions
    names = definitions[index].qualified.split(".")
    outer = {".".join(names[:count]) for count in range(1, len(names))}
    above = {tag.qualified: at for at, tag in enumerate(definitions) if tag.qualified in outer}
    return [*((path, at) for at in above.values() if at != index), place]


def _text(graph: Graph, shown: Iterable[Place]) -> str:
    lines: list[str] = []
    before = None
    for place in sorted(shown, key=lambda one: _order(graph, one)):
        if place[0] != before:
            lines.append(_heading(place[0]))
            before = place[0]
        lines.append(_line(graph, place))
    return "".join(lines)


def _order(graph: Graph, place: Place) -> tuple[str, int, int]:
    return place[0], graph.tag(place).line, place[1]


def _heading(path: str) -> str:
    return f"{path}:\n"


def _line(graph: Graph, place: Place) -> str:
    tag = graph.tag(place)
    depth = 1 + tag.qualified.count(".")
    return f"{INDENT * depth}{tag.line}: {tag.header or tag.qualified}\n"
