"""Draw flows and trees: boxes with arrows between them."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from pipecatapp.tools.images.drawing.data import WrongData
from pipecatapp.tools.images.drawing.diagram_data import DiagramData, Edge, Node, Shape
from pipecatapp.tools.images.drawing.fonts import width, wrapped
from pipecatapp.tools.images.drawing.frame import Area, heading, legend
from pipecatapp.tools.images.drawing.layered import Item, layered
from pipecatapp.tools.images.drawing.svg import Svg, number
from pipecatapp.tools.images.drawing.theme import LABEL, PADDING, SMALL, THEMES, Theme

WIDEST: Final = 190.0
"""Pixels of a line in a node; longer texts have several lines."""
LINE: Final = 18.0
ARROW: Final = 7.0
LOOP: Final = 26.0
LEAST: Final = 360.0
"""Pixels of a drawing, so that its title has room."""
Point = tuple[float, float]


@dataclass(frozen=True)
class Box:
    """A node with its lines and its size."""

    node: Node
    lines: list[str]
    size: Point


def draw_graph(data: DiagramData) -> Svg:
    """Draw a flow or a tree. Raises `WrongData`."""
    nodes = _nodes(data)
    if not nodes:
        raise WrongData("There is nothing to draw: set `nodes` and `edges`.")
    if data.kind == "tree":
        _check_tree(data.edges)
    right = data.direction == "right"
    boxes = {node.id: _box(node) for node in nodes}
    texts = [wrapped(edge.label, SMALL, WIDEST, 2) if edge.label else [] for edge in data.edges]
    rooms = {
        edge.source: 2 * (LOOP + _label_size(lines)[0])
        for edge, lines in zip(data.edges, texts, strict=True)
        if edge.source == edge.target
    }
    layout = layered(
        {
            name: _turned((box.size[0] + rooms.get(name, 0), box.size[1]), right=right)
            for name, box in boxes.items()
        },
        [(edge.source, edge.target) for edge in data.edges],
        [_turned(_label_size(lines), right=right) for lines in texts],
    )
    wide, high = _turned((layout.width, layout.height), right=right)
    groups = list(dict.fromkeys(node.group for node in nodes if node.group))
    svg, area = _begun(data, wide, high, groups)
    left = (svg.width - wide) / 2

    def at(x: float, y: float) -> Point:
        x, y = _turned((x, y), right=right)
        return x + left, y + area.top

    for link, edge, lines in zip(layout.links, data.edges, texts, strict=True):
        way = [(at(item.x, item.y), item) for item in link.way]
        if way:
            _arrow(svg, edge, way, (boxes[edge.source], boxes[edge.target]), lines, right=right)
        else:
            item = layout.items[edge.source]
            _loop(svg, edge, at(item.x, item.y), boxes[edge.source].size, lines)
    for name, box in boxes.items():
        item = layout.items[name]
        _draw_box(svg, box, at(item.x, item.y), groups)
    return svg


def _turned(point: Point, *, right: bool) -> Point:
    return (point[1], point[0]) if right else point


def _nodes(data: DiagramData) -> list[Node]:
    """Return the nodes, with those that only edges name. Raises `WrongData` for one twice."""
    named: dict[str, Node] = {}
    for node in data.nodes:
        if node.id in named:
            raise WrongData(f"Two nodes have the id {node.id!r}: give each its own.")
        named[node.id] = node
    for edge in data.edges:
        for name in (edge.source, edge.target):
            named.setdefault(name, Node(id=name))
    return list(named.values())


def _check_tree(edges: Sequence[Edge]) -> None:
    parents: dict[str, str] = {}
    for edge in edges:
        if edge.target in parents:
            raise WrongData(
                f"{edge.target!r} has two parents, {parents[edge.target]!r} and {edge.source!r}: in"
                " a tree each node has one. Draw a flow instead."
            )
        parents[edge.target] = edge.source
    for name in parents:
        seen, at = {name}, parents[name]
        while at in parents and at not in seen:
            seen.add(at)
            at = parents[at]
        if at in seen:
            raise WrongData(
                f"{at!r} is its own ancestor: a tree has no cycles. Draw a flow instead."
            )


def _box(node: Node) -> Box:
    lines = wrapped(node.label or node.id, LABEL, WIDEST, 5)
    wide, high = max(width(line, LABEL) for line in lines), len(lines) * LINE
    grown: dict[Shape, Point] = {
        "box": (wide + 28, high + 18),
        "round": (wide + 34, high + 18),
        "ellipse": (wide * 1.35 + 24, high * 1.35 + 18),
        "diamond": (wide * 1.55 + 44, high * 1.55 + 34),
        "database": (wide + 32, high + 36),
    }
    wide, high = grown[node.shape]
    return Box(node, lines, (max(wide, 56), high))


def _label_size(lines: Sequence[str]) -> Point:
    if not lines:
        return 0.0, 0.0
    return max(width(line, SMALL) for line in lines) + 12, len(lines) * 15 + 8


def _begun(data: DiagramData, wide: float, high: float, groups: list[str]) -> tuple[Svg, Area]:
    """Return a drawing with heading and legend, and the area below them."""
    full = max(LEAST, wide) + 2 * PADDING
    area = Area(PADDING, PADDING, full - PADDING, 0)
    trial = Svg(full, 0, THEMES[data.theme])
    heading(trial, data.title, data.subtitle, area)
    legend(trial, groups, area)
    trial.height = area.top + high + PADDING
    return trial, area


def _draw_box(svg: Svg, box: Box, centre: Point, groups: list[str]) -> None:
    theme, group = svg.theme, box.node.group
    colour = theme.colour(groups.index(group)) if group else theme.soft
    style: dict[str, Any] = {"fill": theme.fill, "stroke": colour, "stroke_width": 1.6}
    x, y, (wide, high) = centre[0] - box.size[0] / 2, centre[1] - box.size[1] / 2, box.size
    shape = box.node.shape
    if shape == "ellipse":
        svg.add("ellipse", cx=centre[0], cy=centre[1], rx=wide / 2, ry=high / 2, **style)
    elif shape == "diamond":
        points = ((centre[0], y), (x + wide, centre[1]), (centre[0], y + high), (x, centre[1]))
        corners = " ".join(f"{number(one)},{number(two)}" for one, two in points)
        svg.add("polygon", points=corners, stroke_linejoin="round", **style)
    elif shape == "database":
        _cylinder(svg, (x, y), box.size, theme, colour)
    else:
        svg.add("rect", x=x, y=y, width=wide, height=high, rx=high / 2 if shape == "round" else 6,
                **style)  # fmt: skip
    shift = 6 if shape == "database" else 0
    for index, line in enumerate(box.lines):
        base = centre[1] + shift + (index - (len(box.lines) - 1) / 2) * LINE + LABEL * 0.36
        svg.text(centre[0], base, line, anchor="middle")


def _cylinder(svg: Svg, corner: Point, size: Point, theme: Theme, colour: str) -> None:
    (x, y), (wide, high), lid = corner, size, 8.0
    arc = f"A{number(wide / 2)} {number(lid)} 0 0"
    top = f"M{number(x)} {number(y + lid)}{arc} 1 {number(x + wide)} {number(y + lid)}"
    body = (
        f"L{number(x + wide)} {number(y + high - lid)}{arc} 1 {number(x)} {number(y + high - lid)}Z"
    )
    front = f"M{number(x)} {number(y + lid)}{arc} 0 {number(x + wide)} {number(y + lid)}"
    svg.add("path", d=top + body, fill=theme.fill, stroke=colour, stroke_width=1.6)
    svg.add("path", d=front, fill="none", stroke=colour, stroke_width=1.6)


def _arrow(
    svg: Svg,
    edge: Edge,
    way: list[tuple[Point, Item]],
    ends: tuple[Box, Box],
    lines: list[str],
    *,
    right: bool,
) -> None:
    """Draw an edge as a curve through its bends, with its text at the bend that has room for it."""
    points = [point for point, _ in way]
    axis = 0 if right else 1
    forward = points[-1][axis] > points[0][axis]
    begin = _side(points[0], ends[0].size, axis, 1 if forward else -1, 0)
    end = _side(points[-1], ends[1].size, axis, -1 if forward else 1, ARROW)
    bends = _through(way[1:-1], axis, forward=forward)
    _curve(svg, [begin, *bends, end], axis, dashed=edge.dashed)
    _head(svg, end, axis, 1 if forward else -1)
    if lines:
        inner = [(point, item) for point, item in way[1:-1] if item.width > 1 and item.height > 1]
        middle = inner[0][0] if inner else _half(begin, end)
        _write_label(svg, lines, middle)


def _side(point: Point, size: Point, axis: int, sign: int, gap: float) -> Point:
    away = sign * (size[axis] / 2 + gap)
    return (point[0] + away, point[1]) if axis == 0 else (point[0], point[1] + away)


def _through(bends: Sequence[tuple[Point, Item]], axis: int, *, forward: bool) -> list[Point]:
    """Return the points of the bends; one with a text is crossed straight."""
    found: list[Point] = []
    for (x, y), item in bends:
        half = item.height / 2 if item.height > 1 else 0
        for part in (-half, half) if half else (0.0,):
            shift = part if forward else -part
            found.append((x + shift, y) if axis == 0 else (x, y + shift))
    return found


def _half(one: Point, two: Point) -> Point:
    return (one[0] + two[0]) / 2, (one[1] + two[1]) / 2


def _curve(svg: Svg, points: list[Point], axis: int, *, dashed: bool) -> None:
    """Draw a curve that leaves and reaches each point in the direction of the layers."""
    path = f"M{number(points[0][0])} {number(points[0][1])}"
    for one, two in pairwise(points):
        half = _half(one, two)
        first, second = ((half[0], one[1]), (half[0], two[1])) if axis == 0 else (
            (one[0], half[1]), (two[0], half[1])
        )  # fmt: skip
        path += "C" + " ".join(f"{number(x)} {number(y)}" for x, y in (first, second, two))
    svg.add(
        "path",
        d=path,
        fill="none",
        stroke=svg.theme.soft,
        stroke_width=1.5,
        stroke_dasharray="5 4" if dashed else None,
    )


def _head(svg: Svg, end: Point, axis: int, sign: int) -> None:
    (x, y), long, half = end, ARROW * sign, ARROW * 0.6
    if axis == 0:
        points = ((x + long, y), (x, y - half), (x, y + half))
    else:
        points = ((x, y + long), (x - half, y), (x + half, y))
    svg.add("polygon", points=" ".join(f"{number(a)},{number(b)}" for a, b in points),
            fill=svg.theme.soft)  # fmt: skip


def _write_label(svg: Svg, lines: list[str], centre: Point) -> None:
    wide, high = _label_size(lines)
    svg.box(centre[0] - wide / 2 + 2, centre[1] - high / 2 + 2, wide - 4, high - 4, svg.theme.paper)
    for index, line in enumerate(lines):
        base = centre[1] + (index - (len(lines) - 1) / 2) * 15 + SMALL * 0.36
        svg.text(centre[0], base, line, size=SMALL, colour=svg.theme.soft, anchor="middle")


def _loop(svg: Svg, edge: Edge, centre: Point, size: Point, lines: list[str]) -> None:
    """Draw an edge from a node to itself, at its right side."""
    x, y, high = centre[0] + size[0] / 2, centre[1], min(10.0, size[1] / 4)
    out = x + LOOP
    path = (
        f"M{number(x)} {number(y - high)}C{number(out)} {number(y - high * 2)} {number(out)}"
        f" {number(y + high * 2)} {number(x + ARROW)} {number(y + high)}"
    )
    dashes = "5 4" if edge.dashed else None
    svg.add("path", d=path, fill="none", stroke=svg.theme.soft, stroke_width=1.5,
            stroke_dasharray=dashes)  # fmt: skip
    _head(svg, (x + ARROW, y + high), 0, -1)
    for index, line in enumerate(lines):
        svg.text(out, y + 4 + index * 15, line, size=SMALL, colour=svg.theme.soft)
