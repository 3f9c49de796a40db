"""Charts and diagrams: their texts, their places, and what cannot be drawn."""

import re
from typing import Any

import pytest

from pipecatapp.tools.images.drawing.charts import draw_chart
from pipecatapp.tools.images.drawing.data import ChartData, WrongData
from pipecatapp.tools.images.drawing.diagram_data import DiagramData
from pipecatapp.tools.images.drawing.diagrams import draw_diagram
from pipecatapp.tools.images.drawing.fonts import fonts_for, shortened, width, wrapped
from pipecatapp.tools.images.drawing.frame import labels_for
from pipecatapp.tools.images.drawing.layered import layered
from pipecatapp.tools.images.drawing.svg import Svg, TooLarge, rendered
from pipecatapp.tools.images.drawing.theme import LIGHT
from pipecatapp.tools.images.png import size_of

VALUES = {"kind": "bar", "labels": ["a", "b"], "series": [{"values": [1, 2]}]}
KINDS: dict[str, dict[str, Any]] = {
    "bar": {},
    "bars of two": {
        "series": [{"name": "x", "values": [1, -2]}, {"name": "y", "values": [3, None]}]
    },
    "stacked bars": {"stacked": True, "series": [{"values": [1, -2]}, {"values": [3, 4]}]},
    "lying bars": {"horizontal": True, "x_title": "room", "y_title": "W"},
    "line": {"kind": "line", "labels": ["2026-01-01", "2026-02-01"], "x_title": "day"},
    "line of names": {"kind": "line", "series": [{"values": [1, None]}]},
    "area": {"kind": "area", "labels": [1, 2], "y_title": "W"},
    "stacked area": {"kind": "area", "stacked": True, "series": [{"values": [1, 2]}] * 2},
    "scatter": {"kind": "scatter", "labels": [], "series": [{"x": [1, 2], "values": [3, 4]}]},
    "pie": {"kind": "pie"},
    "pie of one": {"kind": "pie", "labels": ["a"], "series": [{"values": [1]}]},
    "histogram": {"kind": "histogram", "labels": [], "series": [{"values": [1, 2, 2, 9]}]},
}
EDGES = [
    {"from": "a", "to": "b", "label": "yes"},
    {"from": "b", "to": "a"},
    {"from": "b", "to": "b"},
]
DIAGRAMS: dict[str, dict[str, Any]] = {
    "flow": {"kind": "flow", "edges": EDGES},
    "flow to the right": {"kind": "flow", "edges": EDGES, "direction": "right"},
    "shapes": {
        "kind": "flow",
        "nodes": [
            {"id": one, "shape": one, "group": one}
            for one in ("box", "round", "ellipse", "diamond", "database")
        ],
    },
    "tree": {"kind": "tree", "edges": [{"from": "a", "to": "b"}, {"from": "a", "to": "c"}]},
    "timeline": {
        "kind": "timeline",
        "tasks": [
            {"label": "build", "start": "2026-01-01", "end": "2026-01-09", "group": "x"},
            {"label": "done", "start": "2026-01-09T12:00"},
        ],
    },
    "table": {"kind": "table", "columns": ["a", "b"], "rows": [["x", 1.5], [None, 2]]},
}


def chart(**fields: Any) -> Svg:
    """Draw a small chart with other fields."""
    return draw_chart(ChartData.model_validate({**VALUES, **fields}))


def diagram(**fields: Any) -> Svg:
    """Draw a diagram."""
    return draw_diagram(DiagramData.model_validate(fields))


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", KINDS)
def test_each_chart_is_a_picture_of_its_size(name: str, theme: str) -> None:
    """The same data gives the same bytes, in both themes."""
    pictures = [rendered(chart(**KINDS[name], title="T", theme=theme), 1) for _ in range(2)]
    assert pictures[0] == pictures[1]
    assert size_of(pictures[0][0]) == (960, 540)


@pytest.mark.parametrize("name", DIAGRAMS)
def test_each_diagram_is_a_picture(name: str) -> None:
    """The same data gives the same bytes."""
    pictures = [rendered(diagram(**DIAGRAMS[name], title="T"), 1) for _ in range(2)]
    assert pictures[0] == pictures[1]


@pytest.mark.parametrize("name", KINDS)
def test_texts_are_inside_the_picture(name: str) -> None:
    """No label is cut off at an edge."""
    svg = chart(**KINDS[name], title="T" * 150, subtitle="s" * 150)
    for x, y, size, anchor, text in placed(svg):
        wide = width(text, size)
        left = x - {"start": 0, "middle": wide / 2, "end": wide}[anchor]
        assert left >= -1, text
        assert left + wide <= svg.width + 1, text
        assert 0 <= y - size * 0.8 <= y <= svg.height, text


def placed(svg: Svg) -> list[tuple[float, float, float, str, str]]:
    """Place, size, anchor and text of the flat texts of a drawing."""
    found = []
    for tag, text in re.findall(r"<text([^>]*)>([^<]*)</text>", svg.source()):
        named = dict(re.findall(r'([a-z-]+)="([^"]*)"', tag))
        if "transform" not in named:
            anchor = named.get("text-anchor", "start")
            place = float(named["x"]), float(named["y"]), float(named["font-size"])
            found.append((*place, anchor, text))
    return found


@pytest.mark.parametrize("count", [2, 8, 30, 200])
def test_labels_below_a_chart_do_not_overlap(count: int) -> None:
    """They are turned, or some are left out."""
    room = 900 / count
    labels = labels_for([f"Station {n}" for n in range(count)], room, first=40)
    shown = labels.texts[:: labels.every]
    if labels.steep:
        assert room * 0.64 >= 9
    else:
        assert max(width(text, 12) for text in shown) <= room * labels.every


def test_nodes_of_a_layer_do_not_overlap() -> None:
    """Also where many want the same place."""
    names = [f"n{n}" for n in range(30)]
    pairs = [(f"n{n}", f"n{(n * 7 + 3) % 30}") for n in range(30)] + [("n0", "n20"), ("n20", "n0")]
    layout = layered(dict.fromkeys(names, (80.0, 30.0)), pairs, [(30.0, 15.0)] * len(pairs))
    items = list(layout.items.values())
    for n, one in enumerate(items):
        for other in items[n + 1 :]:
            assert abs(one.x - other.x) >= 80 or abs(one.y - other.y) >= 30
    assert all(0 <= one.x <= layout.width and 0 <= one.y <= layout.height for one in items)


def test_target_is_below_its_source() -> None:
    """Unless the edge leads back on a cycle."""
    layout = layered(
        dict.fromkeys("abc", (50.0, 30.0)), [("a", "b"), ("b", "c"), ("c", "a")], [(0, 0)] * 3
    )
    assert layout.items["a"].y < layout.items["b"].y < layout.items["c"].y


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"series": []}, "no values"),
        ({"series": [{"values": [None]}]}, "no values"),
        ({"series": [{"name": "Sun", "values": [1]}]}, "Sun has 1 values for 2 labels"),
        ({"kind": "line", "series": [{"values": [1]}]}, "1 values for 2 labels"),
        ({"kind": "scatter"}, "needs numbers or dates"),
        ({"kind": "pie", "series": [{"values": [1, -1]}]}, "must be positive"),
        ({"kind": "pie", "series": [{"values": [1, 1]}] * 2}, "one series"),
        ({"kind": "pie", "labels": [], "series": [{"values": [1] * 30}]}, "more than 20 slices"),
        ({"labels": [], "series": [{"values": [1] * 3000}]}, "draw a line instead"),
    ],
)
def test_data_that_cannot_be_drawn_is_refused(fields: dict[str, Any], reason: str) -> None:
    """The sentence says what to change."""
    with pytest.raises(WrongData, match=reason):
        chart(**fields)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"kind": "flow"}, "set `nodes`"),
        ({"kind": "flow", "nodes": [{"id": "a"}, {"id": "a"}]}, "Two nodes have the id 'a'"),
        ({"kind": "tree", "edges": [{"from": x, "to": "c"} for x in "ab"]}, "'c' has two parents"),
        ({"kind": "tree", "edges": [{"from": "a", "to": "b"}, {"from": "b", "to": "a"}]}, "cycles"),
        ({"kind": "timeline"}, "set `tasks`"),
        ({"kind": "timeline", "tasks": [{"label": "x", "start": "soon"}]}, "'soon' is not a date"),
        (
            {
                "kind": "timeline",
                "tasks": [{"label": "x", "start": "2026-02-01", "end": "2026-01-01"}],
            },
            "ends before it starts",
        ),
        ({"kind": "table"}, "set `columns`"),
        ({"kind": "table", "columns": ["a", "b"], "rows": [["x"]]}, "Row 1 does not have 2 cells"),
    ],
)
def test_diagram_that_cannot_be_drawn_is_refused(fields: dict[str, Any], reason: str) -> None:
    """The sentence says what to change."""
    with pytest.raises(WrongData, match=reason):
        diagram(**fields)


def test_markup_in_texts_stays_text() -> None:
    """Labels come from files and models; none of them becomes a part of the drawing."""
    hostile = '</text><image href="file:///etc/passwd"/>&"\x00\x1b'
    svg = chart(title=hostile, labels=[hostile, "b"], series=[{"values": [1, 2], "name": hostile}])
    assert "<image" not in svg.source()
    assert rendered(svg, 1)[0]


def test_characters_without_a_font_are_reported() -> None:
    """A person can then install a font; the rest is drawn."""
    rare = "\U0001e900"
    svg = chart(title=f"Grüße Ελληνικά Русский {rare}")
    assert rendered(svg, 1)[1] == rare
    assert fonts_for("Grüße Ελληνικά Русский").missing == ""


def test_picture_that_is_too_large_is_refused() -> None:
    """It would take the memory of the service."""
    with pytest.raises(TooLarge, match="smaller `scale`"):
        rendered(Svg(4000, 4000, LIGHT), 4)


def test_long_texts_are_wrapped_and_shortened() -> None:
    """Also words that are longer than a line."""
    assert shortened("x" * 100, 12, 50).endswith("…")
    lines = wrapped("one two three " + "x" * 80, 12, 60, 3)
    assert len(lines) == 3
    assert all(width(line, 12) <= 60 for line in lines)
    assert wrapped("", 12, 60, 3) == [""]
