"""Flowcharts in answers: drawn by the page, readable as text, and safe."""

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.ui.chat.attacks import HIT
from tests.ui.chat.test_markdown import show
from tests.ui.conftest import Visitor, ended, faults, say

CHART = """\
graph TD
    %% How the room gets warm
    A([Start]) --> B{Is it cold?}
    B -->|Yes| C["Light the <br/> stove (wood)"]
    B -- No --> D((Wait))
    D -.-> B
    subgraph cellar [In the cellar]
        C ==> E[(Wood store)] & F[/List/]
        E --- G
    end
    style A fill:#f00
    click A "https://evil.example/"
"""
ANSWER = f"So:\n\n```mermaid\n{CHART}```\n\nThat is all.\n"
PARSE = """async (text) => {
  const { parseFlowchart } = await import("/static/markdown/flowchart.js")
  const chart = parseFlowchart(text)
  return chart && {
    ...chart,
    nodes: chart.nodes.map(({ id, label, shape, parent }) => [id, label, shape, parent]),
    groups: chart.groups.map(({ id, label, parent }) => [id, label, parent]),
    edges: chart.edges.map(({ from, to, label, kind, tail, head }) =>
      `${from} ${tail ? "<" : ""}${kind}${head ? ">" : ""} ${to} ${label}`.trim()),
  }
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_flowchart_is_drawn_and_its_text_is_a_press_away(
    visitor: Visitor, theme: str, width: int
) -> None:
    """It has names for a screen reader, stays inside the page, and gives its text to copy."""
    visitor.house.model.when("chart").say(ANSWER, pause=0.005)
    page = visitor.enter(theme=theme, width=width)
    turn = say(page, "Show me a chart")
    ended(turn)

    diagram, text = turn.get_by_test_id("diagram"), turn.locator("pre")
    expect(diagram.get_by_role("img")).to_have_accessible_name(
        "Flowchart: Start to Is it cold?; Is it cold? to Light the stove (wood) (Yes); Is it cold?"
        " to Wait (No); Wait to Is it cold?; Light the stove (wood) to Wood store; Light the stove"
        " (wood) to List; Wood store to G"
    )
    expect(text).to_be_hidden()
    labels = [label.text_content() for label in diagram.locator(".diagram-label").all()]
    assert labels == [
        "Start",
        "Is it cold?",
        "Light thestove (wood)",
        "Wait",
        "Wood store",
        "List",
        "G",
    ]
    assert inside(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert faults(page, every=True) == []

    turn.get_by_test_id("diagram-text").press("Enter")
    expect(diagram).to_be_hidden()
    expect(text).to_have_text(CHART)
    assert faults(page, every=True) == []


def inside(page: Page) -> list[Any]:
    """The parts of diagrams that lie beyond the drawing, and labels beyond their nodes."""
    found: list[Any] = page.evaluate(
        """() => [...document.querySelectorAll(".rich-diagram svg")].flatMap((svg) => {
          const box = (each) => each.getBoundingClientRect()
          const holds = (outer, inner) => outer.left <= inner.left + 1
            && outer.right >= inner.right - 1 && outer.top <= inner.top + 1
            && outer.bottom >= inner.bottom - 1
          const nodes = [...svg.querySelectorAll(".diagram-node")]
          const out = nodes.filter((node) => !holds(box(node), box(node.nextElementSibling)))
          const beyond = [...svg.children].filter((each) => !holds(box(svg), box(each)))
          return [...out, ...beyond].map((each) => each.outerHTML)
        })"""
    )
    return found


def test_what_is_no_flowchart_stays_code(visitor: Visitor) -> None:
    """A chart that is not understood whole is not drawn in part."""
    page = visitor.enter()
    texts = (
        "sequenceDiagram\nA->>B: Hello",
        "graph TD\nA[open --> B",
        "graph TD\n",
        "A --> B",
        "graph TD\nsubgraph a\nA --> B",
        "graph TD\n" + "\n".join(f"a{number}" for number in range(201)),
    )
    show(page, *(f"```mermaid\n{text}\n```" for text in texts))

    shown = page.locator("#shown")
    expect(shown.locator("pre:visible")).to_have_count(len(texts))
    expect(shown.get_by_test_id("diagram")).to_have_count(0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "flowchart LR\n  a-1-->b & c --- d; d --only if-->a-1",
            {
                "direction": "LR",
                "edges": [
                    "a-1 line> b",
                    "a-1 line> c",
                    "b line d",
                    "c line d",
                    "d line> a-1 only if",
                ],
            },
        ),
        (
            "---\ntitle: x\n---\ngraph\nA <--> B\nA -. maybe .-> B\nA == sure ==> B\nA ~~~ B",
            {
                "direction": "TB",
                "edges": ["A <line> B", "A dotted> B maybe", "A thick> B sure", "A hidden B"],
            },
        ),
        (
            'graph TD; A["#quot;a#quot; & [b]; c"]:::red --> B; A --> A',
            {"nodes": [["A", '"a" & [b]; c', "box", None], ["B", "B", "box", None]]},
        ),
        (
            "graph BT\nsubgraph Two words\nsubgraph in [Inner]\nx\nend\nend\ny --> in\ny --> z{z?}",
            {
                "groups": [["Two words", "Two words", None], ["in", "Inner", "Two words"]],
                "nodes": [
                    ["x", "x", "box", "in"],
                    ["y", "y", "box", None],
                    ["z", "z?", "diamond", None],
                ],
                "edges": ["y line> x", "y line> z"],
            },
        ),
    ],
)
def test_syntax_of_flowcharts(visitor: Visitor, text: str, expected: dict[str, Any]) -> None:
    """Nodes, edges of each kind, and subgraphs as models write them."""
    chart = visitor.enter().evaluate(PARSE, text)

    assert {name: chart[name] for name in expected} == expected


def test_chart_of_a_stranger_runs_nothing_and_leads_nowhere(visitor: Visitor) -> None:
    """Labels are text, names of built-in properties are names, and actions are left out."""
    page = visitor.enter()
    attack = f"<img src=x onerror={HIT}>"
    chart = f"""graph TD
    A["{attack}"] -- "{attack}" --> constructor[__proto__]
    __proto__ --> A
    click A href "javascript:{HIT}"
    classDef x fill:url(//evil.example/x)"""
    show(page, f"```mermaid\n{chart}\n```")

    diagram = page.get_by_test_id("diagram")
    expect(diagram.locator(".diagram-label")).to_have_count(3)
    expect(diagram.locator(".diagram-label").first).to_contain_text("onerror")
    tags = diagram.evaluate(
        "(all) => [...new Set([...all.querySelectorAll('*')].map((each) => each.localName))]"
    )
    assert set(tags) <= {"svg", "path", "text", "tspan", "rect", "polygon"}
    assert page.evaluate("window.hit ?? null") is None
