"""The graph of a run: live beside the chat, whole on its own page, by mouse and by keys."""

import re
import threading
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.ui.conftest import Visitor, ended, say


def start(visitor: Visitor, **inputs: Any) -> str:
    """A run of the workflow `report`, started by the API."""
    with visitor.house.client() as client:
        answer = client.post("/api/runs", json={"workflow": "report", "inputs": inputs})
        return str(answer.json()["run"])


def show(page: Page, run: str) -> None:
    page.goto(page.url.split("#")[0] + f"#/runs/{run}")
    page.get_by_test_id("graph-node").first.wait_for()


def node(page: Page, path: str) -> Any:
    return page.locator(f'[data-testid=graph-node][data-path="{path}"]')


@pytest.mark.proves("004-20")
def test_graph_shows_each_state_while_it_happens(visitor: Visitor) -> None:
    """Watching is what tells a person that it works, and where it waits."""
    held = threading.Event()
    visitor.house.model.when("slow").say("Here it is at last.", held=held)
    page = visitor.enter()

    turn = say(page, "Take it slow")

    panel = page.get_by_test_id("run-panel")
    expect(node(panel.page, "history")).to_have_attribute("data-state", "done")
    expect(node(panel.page, "reply")).to_have_attribute("data-state", "running")
    expect(node(panel.page, "reply")).to_have_attribute(
        "aria-label", re.compile(r"^reply, running, \d")
    )
    expect(turn.get_by_test_id("answer")).to_be_empty()
    held.set()
    ended(turn)
    expect(node(panel.page, "reply")).to_have_attribute("data-state", "done")


@pytest.mark.proves("004-20")
def test_node_shows_input_output_prompt_model_tokens_and_time(visitor: Visitor) -> None:
    """Why an answer is as it is can be read from what each step was given and gave."""
    visitor.house.model.when("stove").say("Iron keeps the heat.")
    page = visitor.enter()
    ended(say(page, "What of the stove?"))

    node(page, "reply").click()

    inspector = page.get_by_test_id("inspector").locator("visible=true")
    expect(inspector.get_by_test_id("inspector-output")).to_contain_text("Iron keeps the heat.")
    expect(inspector.get_by_test_id("inspector-input")).to_contain_text("What of the stove?")
    expect(inspector.get_by_test_id("inspector-prompt")).to_contain_text("You are Hearth")
    facts = inspector.get_by_test_id("inspector-facts")
    expect(facts).to_contain_text("Model")
    expect(facts).to_contain_text("in, 4 out")
    expect(facts).to_contain_text("Took")
    expect(facts).to_contain_text("Attempt")


@pytest.mark.proves("004-20")
def test_graph_on_the_page_is_that_of_the_definition_and_of_the_active_run(
    visitor: Visitor,
) -> None:
    """What is drawn must be what the service tells any other program."""
    held = threading.Event()
    visitor.house.model.when("Report").say("A report.", held=held)
    page = visitor.enter()
    run = start(visitor, question="stoves")
    with visitor.house.client() as client:
        definition = client.get("/api/workflows/report").json()["graph"]
        active = client.get("/api/runs").json()["runs"]

    show(page, run)

    assert [(each["id"], each["status"]) for each in active] == [(run, "running")]
    held.set()
    drawn = page.get_by_test_id("graph-node").evaluate_all("all => all.map(e => e.dataset.path)")
    assert sorted(drawn) == sorted(each["path"] for each in definition["nodes"])
    expect(page.locator(".graph-line")).to_have_count(len(definition["edges"]))
    expect(page.get_by_test_id("run-status")).to_have_text("Done")


def test_inner_calls_of_an_agent_can_be_stepped_into(visitor: Visitor) -> None:
    """A tool call that went wrong lies inside the agent's node, one click away."""
    model = visitor.house.model
    model.when(lambda request: request.messages[-1].role == "tool").say("You wrote nothing yet.")
    model.when("find").call_tool("note_find", {"query": "stove"})
    page = visitor.enter()
    ended(say(page, "find my note"))
    run = page.get_by_test_id("run-panel").get_by_role("link", name="Details")

    run.click()
    node(page, "reply").click()
    page.get_by_test_id("inner-steps").get_by_text("note.find").click()

    inspector = page.get_by_test_id("inspector")
    expect(inspector.get_by_role("heading", level=2)).to_have_text(re.compile("turn 1 . call 0"))
    expect(inspector.get_by_test_id("inspector-input")).to_contain_text("stove")
    inspector.get_by_role("button", name="reply").click()
    expect(inspector.get_by_role("heading", level=2)).to_have_text("reply")


def test_run_page_changes_while_the_run_goes_on(visitor: Visitor) -> None:
    """A run that somebody else started is watched the same way."""
    held = threading.Event()
    visitor.house.model.when("Report").say("A long report.", held=held)
    page = visitor.enter()
    run = start(visitor, question="stoves")

    show(page, run)

    expect(node(page, "draft")).to_have_attribute("data-state", "running")
    expect(page.get_by_test_id("run-status")).to_have_text("Running")
    held.set()
    expect(page.get_by_test_id("run-status")).to_have_text("Done")
    expect(node(page, "save")).to_have_attribute("data-state", "skipped")
    expect(node(page, "look")).to_have_attribute("data-state", "done")
    expect(page.locator(".run-whole")).to_contain_text("A long report.")


def test_running_run_can_be_stopped_from_its_page(visitor: Visitor) -> None:
    """Who sees that it goes wrong wants to stop it there and then."""
    visitor.house.model.when("Report").say("word " * 500, pause=0.1)
    page = visitor.enter()
    show(page, start(visitor, question="stoves"))
    expect(node(page, "draft")).to_have_attribute("data-state", "running")

    page.get_by_test_id("cancel").click()

    expect(page.get_by_test_id("run-status")).to_have_text("Cancelled")
    expect(node(page, "draft")).to_have_attribute("data-state", "cancelled")


def test_failed_node_is_told_by_shape_word_and_reason(visitor: Visitor) -> None:
    """Red alone says nothing to one man in twelve."""
    visitor.house.model.when("Report").refuse(500, "The stove is cold.")
    page = visitor.enter()
    show(page, start(visitor, question="stoves"))

    failed = node(page, "draft")
    expect(failed).to_have_attribute("data-state", "failed")
    expect(failed.locator("path.gem")).to_have_count(1)
    failed.click()

    inspector = page.get_by_test_id("inspector")
    expect(inspector.locator("state-badge").first).to_have_text("Failed")
    expect(inspector.get_by_test_id("problem")).to_contain_text("The stove is cold.")


def test_graph_is_walked_with_the_arrow_keys(visitor: Visitor) -> None:
    """A graph that only a mouse can reach does not exist for many people."""
    page = visitor.enter()
    show(page, start(visitor, question="stoves"))
    expect(page.get_by_test_id("run-status")).to_have_text("Done")

    node(page, "draft").focus()
    page.keyboard.press("ArrowDown")
    expect(node(page, "save")).to_be_focused()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")

    focused = page.evaluate("document.activeElement.dataset.path")
    expect(page.get_by_test_id("inspector")).to_be_visible()
    assert focused in page.url.replace("%2F", "/")
    assert page.locator("[data-testid=graph-node][tabindex='0']").count() == 1
    page.keyboard.press("Escape")
    expect(page.get_by_test_id("inspector")).to_be_hidden()


def test_address_of_a_step_leads_to_that_step(visitor: Visitor) -> None:
    """What one looks at can be sent to somebody else, and survives a reload."""
    page = visitor.enter()
    show(page, start(visitor, question="stoves"))
    node(page, "look/notes").click()

    page.reload()

    heading = page.get_by_test_id("inspector").get_by_role("heading", level=2)
    expect(heading).to_have_text("notes")


def test_graph_of_six_hundred_nodes_is_drawn_and_stays_alive(visitor: Visitor) -> None:
    """Big workflows are where a picture is needed most."""
    steps = "\n".join(
        f'  - {{id: n{i}, use: note.find, with: {{query: "{i}"}}, needs: [{needs(i)}]}}'
        for i in range(600)
    )
    document = f"kind: workflow\nid: wide\nversion: 1\ngraph:\n{steps}\n"
    (visitor.house.state / "workflows" / "wide.yaml").write_text(document, encoding="utf-8")
    page = visitor.enter()
    with visitor.house.client() as client:
        run = client.post("/api/runs", json={"document": document}).json()["run"]

    show(page, run)

    expect(page.get_by_test_id("graph-node")).to_have_count(600, timeout=60_000)
    expect(page.locator("[data-testid=graph-node][data-state=done]")).to_have_count(
        600, timeout=60_000
    )
    node(page, "n0").focus()
    page.keyboard.press("ArrowDown")
    expect(node(page, "n0")).not_to_be_focused()


def needs(number: int) -> str:
    return f"n{(number - 1) // 3}" if number else ""
