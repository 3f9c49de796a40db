"""Changes to pandoc's syntax tree, which is JSON: nodes with a type `t` and a content `c`."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

Node = dict[str, Any]
Change = Callable[[Node], Sequence[Node]]
"""Returns the nodes that replace a node whose content is changed already."""

PLAIN: Final = ["", [], []]
"""The attributes of a node that has none: identifier, classes, pairs of key and value."""
_WRAPPERS: Final = {
    "Emph": 0, "Strong": 0, "Strikeout": 0, "Superscript": 0, "Subscript": 0, "SmallCaps": 0,
    "Underline": 0, "Quoted": 1, "Cite": 1, "Link": 1, "Image": 1, "Span": 1, "Note": 0,
}  # fmt: skip
"""Inline nodes with text inside: 0 if their content is the text, else its index."""
_LEAVES: Final = {"Str": "{}", "Code": "`{}`", "Math": "${}$", "CodeBlock": "{} "}
"""Nodes that are text, and how it is shown."""


def rewrite(value: Any, change: Change) -> Any:
    """Return a tree with every node in a list replaced, the innermost first."""
    if isinstance(value, dict):
        return {key: rewrite(item, change) for key, item in value.items()}
    if not isinstance(value, list):
        return value
    changed: list[Any] = []
    for item in value:
        inner = rewrite(item, change)
        if isinstance(inner, dict) and "t" in inner:
            changed += change(inner)
        else:
            changed.append(inner)
    return changed


def nodes(value: Any, kind: str) -> Iterator[Node]:
    """Yield all nodes of a type, in the order of the text."""
    if isinstance(value, dict):
        if value.get("t") == kind:
            yield value
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from nodes(item, kind)


def text_of(value: Any) -> str:
    """Return the text of nodes, without their formats; blocks are separated by a space."""
    if isinstance(value, list):
        return "".join(text_of(item) for item in value)
    if not isinstance(value, dict):
        return ""
    content: Any = value.get("c")
    kind = value.get("t")
    if kind in ("Space", "SoftBreak", "LineBreak"):
        return " "
    if kind in _LEAVES:
        return _LEAVES[kind].format(content if kind == "Str" else content[1])
    if kind in _WRAPPERS:
        return text_of(content[_WRAPPERS[kind]] if _WRAPPERS[kind] else content)
    return f"{text_of(content)} "


def rows_of(table: Node) -> list[list[str]]:
    """Return the texts of a table. A cell over several columns or rows leaves empty cells."""
    _attributes, _caption, _columns, head, bodies, foot = table["c"]
    rows = list(head[1])
    for body in bodies:
        rows += [*body[2], *body[3]]
    rows += foot[1]
    grid: list[list[str]] = []
    taken: dict[tuple[int, int], bool] = {}
    for y, (_row, cells) in enumerate(rows):
        grid.append(_row_of(y, cells, taken))
    return grid


def _row_of(y: int, cells: list[Any], taken: dict[tuple[int, int], bool]) -> list[str]:
    texts: list[str] = []
    for _attributes, _align, height, width, blocks in cells:
        while (y, len(texts)) in taken:
            texts.append("")
        x = len(texts)
        for down in range(1, min(height, 1000)):
            taken |= {(y + down, x + right): True for right in range(min(width, 1000))}
        texts += [text_of(blocks).strip(), *[""] * (min(width, 1000) - 1)]
    return texts
