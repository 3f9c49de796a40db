"""A plan on the page of its run: the graph grows, and a person changes the to-do list."""

import json
import threading
from pathlib import Path

from playwright.sync_api import expect

from tests.integration.agent.code.conftest import follow_until, repository
from tests.integration.agent.code.test_coding_task import (
    CHECK,
    FAREWELL_GOAL,
    GREETING,
    GREETING_GOAL,
    RIGHT,
    steps_of,
)
from tests.integration.agent.code.test_coordinator import ADDED, body, plan, start
from tests.ui.conftest import Visitor


def test_graph_grows_and_items_are_struck_and_added_while_the_run_goes_on(
    visitor: Visitor, tmp_path: Path
) -> None:
    """The page is open before there is a plan; it shows its steps when they begin."""
    planned, gate, when = threading.Event(), threading.Event(), visitor.house.model.when
    when(lambda request: "Do this step: " + GREETING_GOAL in str(request.messages[-1].content)
         and gate.wait(60)).say(GREETING)  # fmt: skip
    when(f"Do this step: {ADDED}").say("Done.\n\nwords/notes.py\n```\n# Notes.\n```\n")
    when(f"Do this step: {FAREWELL_GOAL}").say(RIGHT)
    when(lambda request: planned.wait(60)).say(json.dumps(plan()))
    shop = repository(tmp_path / "words", {"words/__init__.py": "", "check.py": CHECK})
    page = visitor.enter()
    with visitor.house.client() as client:
        run = start(client, body(shop, accept="do not deliver"))
        page.goto(page.url.split("#")[0] + f"#/runs/{run}")
        graph = page.get_by_test_id("graph-node")
        expect(graph.locator("visible=true").first).to_be_visible()
        expect(page.locator('[data-path="rounds/work/farewell"]')).to_have_count(0)

        planned.set()
        expect(page.locator('.graph-node[data-path="rounds/work/farewell"]')).to_have_count(1)
        item = page.locator('[data-testid=todo-item][data-id="farewell"]')
        item.get_by_test_id("todo-strike").click()
        expect(item).to_have_attribute("data-state", "struck")
        page.get_by_test_id("todo-text").fill(ADDED)
        page.get_by_test_id("todo-add").click()
        expect(page.locator('[data-testid=todo-item][data-id="added-1"]')).to_contain_text(ADDED)

        gate.set()
        view = follow_until(client, run, "end")

    assert steps_of(view)["rounds[0]/work/farewell"]["status"] == "skipped"
    assert steps_of(view)["rounds[1]/work/added_1"]["status"] == "done"
    expect(page.locator('[data-testid=todo-item][data-id="added_1"]')).to_have_attribute(
        "data-state", "done"
    )
    expect(page.get_by_test_id("todo-text")).to_be_hidden()
