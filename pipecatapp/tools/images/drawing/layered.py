"""Layout of a directed graph in layers: Sugiyama, Tagawa and Toda (1981).

Cycles are broken, nodes are put into layers, long edges get a bend in each layer that they cross,
the order within the layers is chosen for few crossings, and each node is moved towards the mean of
its neighbours. All steps depend only on the input, so the same graph has the same picture.
"""

from bisect import bisect_right, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

SWEEPS: Final = 12
"""Passes over the layers for order and for places; more change little."""
GAP: Final = 36.0
"""Pixels between neighbours in a layer."""
BEND_GAP: Final = 18.0
LAYER_GAP: Final = 44.0
STRAIGHT: Final = 4.0
"""Weight of a bend when it is placed, so that long edges stay straight."""


@dataclass
class Item:
    """A node of the layout, or a bend of an edge. `x` and `y` are its centre."""

    width: float
    height: float
    bend: bool = False
    layer: int = 0
    x: float = 0.0
    y: float = 0.0
    above: list["Item"] = field(default_factory=list)
    below: list["Item"] = field(default_factory=list)


@dataclass
class Link:
    """An edge: the items on its way, from its begin to its end."""

    source: str
    target: str
    way: list[Item] = field(default_factory=list)


@dataclass
class Layout:
    """The placed items by the names of their nodes, the edges in their order, and the size."""

    items: dict[str, Item]
    links: list[Link]
    width: float
    height: float


def layered(
    sizes: Mapping[str, tuple[float, float]],
    edges: Sequence[tuple[str, str]],
    labels: Sequence[tuple[float, float]],
) -> Layout:
    """Lay out nodes of these sizes from top to bottom.

    `labels` are the sizes of the texts on the edges; they get room, too. Edges from a node to
    itself have no way.
    """
    items = {name: Item(*size) for name, size in sizes.items()}
    forward = _without_cycles(items, edges)
    stretch = 2 if any(wide for wide, _ in labels) else 1
    ranks = _ranks(items, forward, stretch)
    for name, item in items.items():
        item.layer = ranks[name]
    layers: list[list[Item]] = [[] for _ in range(max(ranks.values(), default=0) + 1)]
    for item in items.values():
        layers[item.layer].append(item)
    links = [
        _link(items, layers, edge, flipped, size)
        for edge, flipped, size in zip(edges, forward, labels, strict=True)
    ]
    _order(layers)
    _place(layers)
    width, height = _move_to_origin(layers)
    return Layout(items, links, width, height)


def _without_cycles(
    items: Mapping[str, Item], edges: Sequence[tuple[str, str]]
) -> list[tuple[str, str]]:
    """Return the edges, with those turned around that lead back on a way (depth first)."""
    after: dict[str, list[str]] = {name: [] for name in items}
    for source, target in edges:
        after[source].append(target)
    targets = {target for source, target in edges if source != target}
    roots = [name for name in items if name not in targets]
    done: set[str] = set()
    back: set[tuple[str, str]] = set()
    for root in (*roots, *items):
        if root in done:
            continue
        way, stack = {root}, [(root, iter(after[root]))]
        while stack:
            name, rest = stack[-1]
            following = next(rest, None)
            if following is None:
                done.add(name)
                way.discard(name)
                stack.pop()
            elif following in way:
                back.add((name, following))
            elif following not in done:
                way.add(following)
                stack.append((following, iter(after[following])))
    return [
        (target, source) if (source, target) in back else (source, target)
        for source, target in edges
    ]


def _ranks(
    items: Mapping[str, Item], edges: Sequence[tuple[str, str]], stretch: int
) -> dict[str, int]:
    """Return the layers: each node below all of its sources, and sources close to their targets."""
    real = [edge for edge in edges if edge[0] != edge[1]]
    before: dict[str, list[str]] = {name: [] for name in items}
    after: dict[str, list[str]] = {name: [] for name in items}
    for source, target in real:
        before[target].append(source)
        after[source].append(target)
    ranks: dict[str, int] = {}
    left = {name: len(sources) for name, sources in before.items()}
    ready = [name for name in items if not left[name]]
    for name in ready:
        ranks[name] = max((ranks[one] + stretch for one in before[name]), default=0)
        for target in after[name]:
            left[target] -= 1
            if not left[target]:
                ready.append(target)
    for name in ranks:
        if not before[name] and after[name]:
            ranks[name] = min(ranks[target] for target in after[name]) - stretch
    least = min(ranks.values(), default=0)
    return {name: rank - least for name, rank in ranks.items()}


def _link(
    items: Mapping[str, Item],
    layers: list[list[Item]],
    edge: tuple[str, str],
    forward: tuple[str, str],
    label: tuple[float, float],
) -> Link:
    """Return an edge with its bends, which are added to the layers."""
    if edge[0] == edge[1]:
        return Link(*edge)
    first, last = items[forward[0]], items[forward[1]]
    way = [first]
    middle = (first.layer + last.layer) // 2
    for layer in range(first.layer + 1, last.layer):
        bend = Item(*(label if layer == middle else (1.0, 1.0)), bend=True, layer=layer)
        layers[layer].append(bend)
        way.append(bend)
    way.append(last)
    for upper, lower in pairwise(way):
        upper.below.append(lower)
        lower.above.append(upper)
    return Link(*edge, way if edge == forward else way[::-1])


def _order(layers: list[list[Item]]) -> None:
    """Sort each layer by the mean place of its neighbours, and keep the order with the fewest
    crossings."""
    best, least = [list(layer) for layer in layers], _crossings(layers)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        places = _places(layers)
        for layer in layers if down else reversed(layers):
            means = {id(item): _mean(item, places, down=down) for item in layer}
            layer.sort(key=lambda item, means=means: means[id(item)])  # type: ignore[misc]
            places.update(_places([layer]))
        count = _crossings(layers)
        if count < least:
            best, least = [list(layer) for layer in layers], count
    for layer, order in zip(layers, best, strict=True):
        layer[:] = order


def _places(layers: list[list[Item]]) -> dict[int, float]:
    """Return the place of each item in its layer, from 0 to 1."""
    return {
        id(item): (index + 0.5) / len(layer) for layer in layers for index, item in enumerate(layer)
    }


def _mean(item: Item, places: Mapping[int, float], *, down: bool) -> float:
    near = item.above if down else item.below
    if not near:
        return places[id(item)]
    return sum(places[id(one)] for one in near) / len(near)


def _crossings(layers: list[list[Item]]) -> int:
    total = 0
    for upper, lower in pairwise(layers):
        places = {id(item): index for index, item in enumerate(lower)}
        before: list[int] = []
        for item in upper:
            ends = [places[id(one)] for one in item.below]
            total += sum(len(before) - bisect_right(before, end) for end in ends)
            for end in ends:
                insort(before, end)
    return total


def _place(layers: list[list[Item]]) -> None:
    """Set the places of all items: layers below each other, items near their neighbours."""
    y = 0.0
    for layer in layers:
        high = max((item.height for item in layer), default=0)
        for item in layer:
            item.y = y + high / 2
        y += high + (LAYER_GAP if high > 1 else LAYER_GAP / 2)
    for layer in layers:
        _separate(layer, [0.0] * len(layer))
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for layer in layers if down else reversed(layers):
            _separate(layer, [_wanted(item, down=down) for item in layer])
    for layer in layers:
        _separate(layer, [_wanted(item, down=None) for item in layer])


def _wanted(item: Item, *, down: bool | None) -> float:
    near = [*item.above, *item.below] if down is None else item.above if down else item.below
    return sum(one.x for one in near) / len(near) if near else item.x


def _separate(layer: list[Item], wanted: list[float]) -> None:
    """Place items in their order as near as possible to where they are wanted, without overlap.

    Isotonic regression by pooling neighbours that would overlap (Ayer et al., 1955).
    """
    offsets, at = [], 0.0
    for index, item in enumerate(layer):
        if index:
            before = layer[index - 1]
            gap = BEND_GAP if item.bend and before.bend else GAP
            at += (before.width + item.width) / 2 + gap
        offsets.append(at)
    pools: list[tuple[float, float, int]] = []
    for item, place, offset in zip(layer, wanted, offsets, strict=True):
        weight = STRAIGHT if item.bend else 1.0
        pool = (weight * (place - offset), weight, 1)
        while pools and pools[-1][0] / pools[-1][1] >= pool[0] / pool[1]:
            last = pools.pop()
            pool = (last[0] + pool[0], last[1] + pool[1], last[2] + pool[2])
        pools.append(pool)
    means = [total / weight for total, weight, count in pools for _ in range(count)]
    for item, mean, offset in zip(layer, means, offsets, strict=True):
        item.x = mean + offset


def _move_to_origin(layers: list[list[Item]]) -> tuple[float, float]:
    """Move all items to positive places; returns width and height."""
    every = [item for layer in layers for item in layer]
    left = min((item.x - item.width / 2 for item in every), default=0)
    for item in every:
        item.x -= left
    width = max((item.x + item.width / 2 for item in every), default=0)
    return width, max((item.y + item.height / 2 for item in every), default=0)
