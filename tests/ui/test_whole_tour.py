"""The example that combines everything, on the page."""

import pytest
from playwright.sync_api import expect

from hearth.openai_api.scripted import RULES
from tests.integration.agent.code.conftest import follow_until
from tests.integration.agent.examples import ROOT, expected, read
from tests.ui.conftest import Visitor


@pytest.mark.proves("001-43")
def test_whole_tour_is_answered_and_followed_on_the_page(visitor: Visitor) -> None:
    """The same workflow as by the command, with the same result."""
    example = read("whole-tour")
    for rule in RULES.validate_python(example["model"]):
        rule.add_to(visitor.house.model)
    text = (ROOT / "whole-tour" / "workflow.yaml").read_text(encoding="utf-8")
    page = visitor.enter()
    with visitor.house.client() as client:
        body = {"document": text, "inputs": example["inputs"], "interactive": True}
        run = client.post("/api/runs", json=body).json()["run"]
        page.goto(page.url.split("#")[0] + f"#/runs/{run}")
        page.get_by_test_id("choice").get_by_text("short").click()
        view = follow_until(client, run, "end")

    assert view["outputs"] == expected("whole-tour")["outputs"]
    expect(page.get_by_test_id("run-status")).to_have_attribute("state", "done")
    for node in ("parts", "when", "program/run_it", "short"):
        shown = page.locator(f'.graph-node[data-path="{node}"]')
        expect(shown).to_have_attribute("data-state", "done")
