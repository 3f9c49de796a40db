"""The text of a page within a budget."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipecatapp.tools.browser.rendering import as_data, line_text, rendered, room
from pipecatapp.tools.browser.snapshot import Element, Line, Snapshot
from pipecatapp.tools.memory.tokens import estimated


def page(*lines: Line, elements: int = 0) -> Snapshot:
    made = [Element("link", f"Open {number}", "", "a") for number in range(elements)]
    return Snapshot(list(lines), made, ref="r1")


def items(count: int, text: str = "Item {}") -> list[Line]:
    return [Line((text.format(n) + " ", n + 1), "f", str(n)) for n in range(count)]


def test_repeated_lines_are_told_once() -> None:
    """A page of advertisements says the same a hundred times."""
    assert rendered(page(*[Line(("Buy!",))] * 9, Line(("End.",))), 100).text == (
        "Buy! (this line 9 times)\nEnd."
    )


def test_list_is_folded_only_if_it_does_not_fit() -> None:
    """Ten results that fit are all worth reading."""
    snapshot = page(Line(("Results",)), *items(20), Line(("End.",)), elements=20)

    whole, folded = rendered(snapshot, 2000), rendered(snapshot, 100)

    assert whole.text.count("Item") == 20
    assert folded.text.splitlines() == [
        "Results",
        'Item 0 [1 link "Open 0"]',
        'Item 1 [2 link "Open 1"]',
        'Item 2 [3 link "Open 2"]',
        "(17 more like 1–3; more: r1:4u)",  # noqa: RUF001
        "End.",
    ]
    assert rendered(snapshot, 100, first=4, fold=False).text.startswith("Item 3 ")


def test_long_items_are_no_repetition() -> None:
    """The sections of an article look alike, too."""
    snapshot = page(*items(20, "Long text. " * 50 + "{}"), elements=20)

    assert "more like" not in rendered(snapshot, 1000).text


@given(
    st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=30), max_size=40),
    st.integers(1, 20),
    st.integers(200, 800),
)
@pytest.mark.proves("003-36")
def test_budget_holds_and_nothing_is_lost(texts: list[str], times: int, budget: int) -> None:
    """A page must not push the task out of a small context, whatever it contains."""
    snapshot, found = page(*[Line((text * times,)) for text in texts]), list[str]()
    first: int | None = 0
    while first is not None:
        part = rendered(snapshot, room(budget, "https://x.org/"), first=first)
        assert estimated(as_data(part.text + "\n(more: r99:99999u)", "https://x.org/")) <= budget
        found.append(part.text)
        assert part.next is None or part.next > first
        first = part.next

    short = [line for line in (line_text(snapshot, one) for one in snapshot.lines) if len(line) < 9]
    assert [line for line in short if line not in "\n".join(found)] == []


def test_delimiter_is_not_in_the_text() -> None:
    """Else the page could end it and speak on as somebody else."""
    text = as_data("a", "https://x.org/")

    assert as_data(text, "https://x.org/").count(text.splitlines()[-1]) == 1
    assert text.splitlines()[1] != as_data("b", "https://x.org/").splitlines()[1]


def test_long_paragraph_is_divided_so_that_its_end_can_be_read() -> None:
    """A paragraph can be longer than the budget of a reading."""
    words = [f"word{number}" for number in range(2000)]
    line = {"parts": [" ".join(words)], "group": ""}
    snapshot = Snapshot(ref="r1")
    snapshot.add({"lines": [line], "elements": [], "cut": False}, None, "0:")

    first: int | None = 0
    found: list[str] = []
    while first is not None:
        part = rendered(snapshot, room(300, "https://x.org/"), first=first)
        found += part.text.split()
        first = part.next

    assert found == words
