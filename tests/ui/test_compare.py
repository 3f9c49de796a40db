"""Two runs beside each other: where they part, what each gave, and what each used."""

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.integration.agent.conftest import follow
from tests.ui.conftest import Visitor, faults

RED = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="  # noqa: E501
BLUE = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPj/HwADBwIAMCbHYQAAAABJRU5ErkJggg=="  # noqa: E501
DOCUMENT = """id: pair
inputs: {word: text, picture: text}
steps:
  - {id: same, use: value, with: {value: 1}}
  - {id: said, use: llm, with: {text: "Say {{ inputs.word }}", temperature: 0}}
  - {id: loud, use: value, with: {value: "{{ said.text | upper }}"}}
outputs:
  text: "{{ loud.value }}"
  list: "{{ [inputs.word, 'always'] }}"
  picture: "{{ inputs.picture }}"
"""


def pair(visitor: Visitor) -> tuple[str, str]:
    """Two runs of a document: another input, and another line in the document."""
    visitor.house.model.when("Say tea").say("The kettle sings of tea.")
    visitor.house.model.when("Say milk").say("The kettle sings of milk.")
    edited = DOCUMENT.replace("upper", "lower")
    return (
        run(visitor, DOCUMENT, {"word": "tea", "picture": RED}),
        run(visitor, edited, {"word": "milk", "picture": BLUE}),
    )


def run(visitor: Visitor, document: str, inputs: dict[str, Any]) -> str:
    with visitor.house.client() as client:
        body = {"document": document, "inputs": inputs}
        name = str(client.post("/api/runs", json=body).raise_for_status().json()["run"])
        with client.stream("GET", f"/api/runs/{name}/events") as events:
            follow(events)
    return name


def compare(visitor: Visitor, page: Page) -> tuple[str, str]:
    before, after = pair(visitor)
    page.goto(f"{visitor.house.address}/#/runs/{before}?with={after}")
    page.get_by_test_id("compare-totals").wait_for()
    return before, after


def test_comparison_shows_where_two_runs_part_and_both_sides(visitor: Visitor) -> None:
    """Which change made the answer another one is read off, not searched for."""
    page = visitor.enter()
    before, after = compare(visitor, page)
    first = page.get_by_test_id("compare-first")
    outputs = page.get_by_test_id("compare-outputs").get_by_test_id("sides")

    expect(first.get_by_test_id("first-step")).to_have_text("said")
    expect(first.get_by_test_id("first-field")).to_have_text("input messages")
    expect(first.get_by_test_id("sides")).to_contain_text("Say tea")
    expect(first.get_by_test_id("sides")).to_contain_text("Say milk")
    expect(page.get_by_test_id("compare-document")).to_contain_text("loud · with.value")
    expect(page.get_by_test_id("compare-document").locator("mark")).to_have_text(["upper", "lower"])
    expect(outputs).to_have_count(3)
    expect(outputs.nth(0)).to_contain_text("THE KETTLE SINGS OF TEA.")
    expect(outputs.nth(0)).to_contain_text("the kettle sings of milk.")
    expect(outputs.nth(1)).to_contain_text("always")
    expect(outputs.nth(2).get_by_test_id("side-picture")).to_have_count(2)
    pictures = outputs.nth(2).get_by_test_id("side-picture")
    assert [pictures.nth(i).get_attribute("src") for i in (0, 1)] == [RED, BLUE]
    for each in (0, 1):
        assert pictures.nth(each).evaluate("async (image) => { await image.decode(); return true }")
    totals = page.get_by_test_id("compare-totals")
    expect(totals.get_by_role("row").filter(has_text="Tokens")).to_contain_text("in, ")
    expect(totals.get_by_role("row").filter(has_text="Took")).to_contain_text("s")

    page.get_by_test_id("compare-step").filter(has_text="said").locator("summary").click()
    step = page.locator("[data-testid=compare-step][data-path=said]")
    expect(step.get_by_test_id("sides")).to_have_count(2)
    page.get_by_test_id("swap").click()
    expect(first.get_by_test_id("sides").locator(".side").first).to_contain_text("Say milk")
    assert page.url.endswith(f"#/runs/{after}?with={before}")


def test_fork_leads_to_the_comparison_with_its_origin(visitor: Visitor) -> None:
    """After a change somebody wants to see what it changed."""
    page = visitor.enter()
    origin = run(visitor, DOCUMENT, {"word": "tea", "picture": RED})
    with visitor.house.client() as client:
        fork = client.post(f"/api/runs/{origin}/fork", json={}).json()["run"]
    page.goto(f"{visitor.house.address}/#/runs/{fork}")

    page.get_by_test_id("compare-fork").click()

    expect(page.get_by_test_id("compare-first")).to_contain_text("No step has another key")
    expect(page.get_by_test_id("compare-steps")).to_contain_text("Every step is alike")


def test_run_that_is_not_there_is_named(visitor: Visitor) -> None:
    """A link to a run that was removed must not show half a comparison."""
    page = visitor.enter()
    name = run(visitor, DOCUMENT, {"word": "tea", "picture": RED})
    page.goto(f"{visitor.house.address}/#/runs/{name}?with=01NOSUCH")

    expect(page.get_by_test_id("problem")).to_contain_text("There is no run '01NOSUCH'.")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844), (640, 400)])
def test_comparison_has_no_fault_of_access_and_fits(
    visitor: Visitor, theme: str, width: int, height: int
) -> None:
    """Colour is never the only sign of a difference, and nothing slides sideways."""
    page = visitor.enter(theme=theme, width=width, height=height)
    compare(visitor, page)
    page.get_by_test_id("compare-step").last.locator("summary").click()

    assert faults(page, every=True) == []
    assert page.evaluate("document.querySelector('main').scrollWidth - innerWidth") <= 0
