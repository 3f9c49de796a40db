"""The list of runs, and the workflows one starts them from."""

import threading

from playwright.sync_api import expect

from tests.ui.conftest import Visitor, ended, faults, say, sign_in


def test_runs_outlive_a_restart_of_the_service(visitor: Visitor) -> None:
    """History is for the day after, when the machine has been off."""
    page = visitor.enter()
    ended(say(page, "Remember this one"))
    page.goto("about:blank")

    visitor.restart()

    page.goto(visitor.house.address)
    sign_in(page, visitor.house.key)
    page.get_by_test_id("nav-runs").click()
    row = page.get_by_test_id("run").filter(has_text="Remember this one")
    expect(row).to_contain_text("Done")
    row.click()
    expect(page.locator(".run-whole")).to_contain_text("Remember this one")


def test_list_shows_a_run_while_it_runs_and_when_it_is_done(visitor: Visitor) -> None:
    """The list is left open on a second screen; nobody should have to reload it."""
    held = threading.Event()
    visitor.house.model.when("slow").say("Done at last.", held=held)
    page = visitor.enter()
    page.get_by_test_id("nav-runs").click()
    page.get_by_test_id("empty").wait_for()

    with visitor.house.client() as client:
        body = {"workflow": "agent-turn", "inputs": {"text": "slow one"}}
        client.post("/api/runs", json=body)

    row = page.get_by_test_id("run").filter(has_text="slow one")
    expect(row).to_contain_text("Running")
    held.set()
    expect(row).to_contain_text("Done")


def test_runs_are_found_by_words_and_status_and_paged(visitor: Visitor) -> None:
    """After a month there are thousands; the one that failed yesterday must be near."""
    visitor.house.model.when("bad").refuse(400, "No.")
    with visitor.house.client() as client:
        for number in range(43):
            text = "bad idea" if number == 42 else f"number {number}"
            body = {"workflow": "agent-turn", "inputs": {"text": text}}
            run = client.post("/api/runs", json=body).raise_for_status().json()["run"]
        client.get(f"/api/runs/{run}/events").raise_for_status()  # until it has failed
    page = visitor.enter()
    page.get_by_test_id("nav-runs").click()
    rows = page.get_by_test_id("run")
    expect(rows).to_have_count(40)

    rows.last.scroll_into_view_if_needed()
    expect(rows).to_have_count(43)
    expect(page.get_by_test_id("older")).to_be_hidden()
    page.get_by_test_id("filter-text").fill("number 17")
    expect(rows).to_have_count(1)
    page.get_by_test_id("filter-text").fill("")
    page.get_by_test_id("filter-status").select_option("failed")

    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("bad idea")


def test_workflow_is_started_from_a_form_made_of_its_inputs(visitor: Visitor) -> None:
    """Nobody should have to write JSON to try a workflow."""
    visitor.house.model.when("Report").say("Stoves are warm.")
    page = visitor.enter()
    page.get_by_test_id("nav-workflows").click()
    page.locator('[data-testid=workflow][href$="/report"]').click()
    expect(page.get_by_test_id("graph-node")).to_have_count(5)

    page.get_by_test_id("start").click()
    expect(page.get_by_test_id("input-question")).to_have_attribute("aria-invalid", "")
    page.get_by_test_id("input-question").fill("stoves")
    page.get_by_test_id("input-keep").check()
    page.get_by_test_id("start").click()

    expect(page.get_by_test_id("run-status")).to_have_text("Done")
    expect(page.locator(".run-whole")).to_contain_text("Stoves are warm.")
    expect(page.locator("[data-path=save].graph-node")).to_have_attribute("data-state", "done")


def test_address_of_a_run_that_does_not_exist_says_so(visitor: Visitor) -> None:
    """An old link must not lead to an empty page."""
    page = visitor.enter()

    page.goto(f"{visitor.house.address}/#/runs/01NOSUCHRUN")

    expect(page.get_by_test_id("problem")).to_contain_text("This run cannot be shown")


ASKING = """
id: asking
steps:
  - id: which
    use: human.ask
    with: {question: Which one?, choices: [red, green], show: {red: 1, green: 2}}
  - id: many
    use: human.ask
    with: {question: How many?, returns: integer}
outputs: {text: "{{ many.answer }} {{ which.answer }}"}
"""


def test_question_of_a_run_is_answered_on_its_page(visitor: Visitor) -> None:
    """Every chat, mail and document that tells of a waiting run sends the person here."""
    with visitor.house.client() as client:
        run = client.post("/api/runs", json={"document": ASKING}).raise_for_status().json()["run"]
    page = visitor.enter()
    page.goto(f"{visitor.house.address}/#/runs/{run}")
    form = page.get_by_test_id("question-form")

    expect(form).to_contain_text("Which one?")
    assert faults(page) == []
    form.get_by_test_id("choice").filter(has_text="green").click()
    expect(form).to_contain_text("How many?")
    form.get_by_test_id("answer-text").fill("a few")
    form.get_by_test_id("answer-send").click()
    expect(form.get_by_test_id("problem")).to_be_visible()
    form.get_by_test_id("answer-text").fill("3")
    form.get_by_test_id("answer-send").click()

    expect(page.get_by_test_id("run-status")).to_contain_text("Done")
    expect(page.locator(".run-whole")).to_contain_text("3 green")
    expect(form).to_have_count(0)


def test_address_that_is_none_shows_the_way_back(visitor: Visitor) -> None:
    """A link that a mail program has cut must not leave an empty page."""
    page = visitor.enter()
    page.goto(f"{visitor.house.address}/#/runs/%")

    expect(page.get_by_role("heading", name="There is no such page")).to_be_visible()
