"""The history of runs: searched and filtered by the server, with the address as its memory."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from hearth.service.state import StateDir
from pipecatapp.workflow import Ledger
from tests.integration.agent.conftest import House
from tests.ui.conftest import Visitor, faults

RUNS = 5000
INSERT = """INSERT INTO run (id, workflow, status, caller, owner, started, ended, title, request,
    plan, inputs, outputs) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
PLAN = {"workflow": "old", "roles": {}, "limits": {}}


def fill(house: House) -> None:
    """Put 5,000 runs of six months into a ledger: one of fifty failed, one of 500 has a stove."""
    file = StateDir(house.state).ledger
    with closing(Ledger(file)), closing(sqlite3.connect(file)) as db:
        db.executemany(INSERT, (row(number) for number in range(RUNS)))
        db.commit()


def row(number: int) -> tuple[object, ...]:
    """A run: the larger its number, the newer it is."""
    about = "the iron stove" if number % 500 == 7 else "the garden"
    title = f"Question {number} about {about}"
    day = f"2026-{1 + number // 1000:02}-{1 + number % 1000 // 40:02}T12:00:00.000Z"
    workflow, caller = f"job-{number % 3}", "cli" if number % 4 else "chat"
    status, owner = "done" if number % 50 else "failed", "child" if number % 1000 == 7 else ""
    body = {
        "id": workflow,
        "version": 1,
        "order": "steps",
        "nodes": [],
        "inputs": {},
        "outputs": {},
    }
    plan = json.dumps(PLAN | {"workflow": workflow, "bodies": {workflow: body}})
    return (
        f"01AAAA{number:020}", workflow, status, caller, owner, day, day, title,
        json.dumps(title), plan, "{}", json.dumps({"text": f"Answer {number}"}),
    )  # fmt: skip


@pytest.fixture
def historian(browser: Browser, house: House) -> Iterator[Visitor]:
    """A visitor of a service with 5,000 runs."""
    fill(house)
    with ExitStack() as closing:
        visitor = Visitor(browser, house, closing)
        closing.enter_context(visitor.service)
        visitor.restart()
        yield visitor
    assert visitor.complaints == []
    assert visitor.abroad == []


def history(visitor: Visitor, query: str = "", **how: Any) -> Page:
    page = visitor.enter(**how)
    page.goto(f"{visitor.house.address}/#/runs{query}")
    page.get_by_test_id("run").first.wait_for()
    return page


@pytest.mark.proves("004-23")
def test_server_finds_among_5000_runs_and_the_address_holds_the_filters(historian: Visitor) -> None:
    """The run of last winter is found by a word, and the link to the search can be sent."""
    page = history(historian)
    rows = page.get_by_test_id("run")

    page.get_by_test_id("filter-text").fill("stove")
    expect(rows).to_have_count(10)
    expect(rows.last).to_contain_text("Question 7 about the iron stove")
    page.get_by_test_id("filter-person").select_option("child")
    expect(rows).to_have_count(5)
    page.get_by_test_id("filter-workflow").select_option("job-1")
    expect(rows).to_have_count(2)
    page.get_by_test_id("filter-since").fill("2026-02-01")
    page.get_by_test_id("filter-until").fill("2026-05-01")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("Question 3007 about the iron stove")
    address = page.url

    page.reload()
    expect(rows).to_have_count(1)
    expect(page.get_by_test_id("filter-text")).to_have_value("stove")
    expect(page.get_by_test_id("filter-since")).to_have_value("2026-02-01")
    assert "text=stove&workflow=job-1&person=child&since=2026-02-01&until=2026-05-01" in address
    page.get_by_test_id("filter-status").select_option("failed")
    expect(page.get_by_test_id("empty")).to_contain_text("No matching runs")
    page.get_by_test_id("filter-clear").click()
    expect(rows).to_have_count(40)
    assert page.url.endswith("#/runs")


@pytest.mark.proves("004-23")
def test_list_continues_by_scrolling_and_back_restores_position_and_filters(
    historian: Visitor,
) -> None:
    """Whoever looks into the 170th run and comes back must not begin at the first."""
    page = history(historian, "?caller=cli")
    wanted = page.get_by_test_id("run").filter(has_text="Question 4733 ")
    while not wanted.count():
        page.get_by_test_id("run").last.scroll_into_view_if_needed()
    wanted.evaluate("(row) => row.scrollIntoView({ block: 'center' })")
    page.wait_for_function("history.state?.runs")
    page.wait_for_timeout(500)  # the position is noted a moment after the last scroll
    top = wanted.bounding_box()

    wanted.get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Question 4733")
    page.go_back()

    expect(wanted).to_be_in_viewport()
    after = wanted.bounding_box()
    assert top is not None
    assert after is not None
    assert abs(top["y"] - after["y"]) < 2
    expect(page.get_by_test_id("filter-caller")).to_have_value("cli")
    page.reload()
    expect(wanted).to_be_in_viewport()


def test_end_of_the_list_is_reached(historian: Visitor) -> None:
    """An endless list that never ends hides that there is nothing more."""
    page = history(historian, "?status=failed")
    rows = page.get_by_test_id("run")

    for _ in range(3):
        rows.last.scroll_into_view_if_needed()
        page.wait_for_timeout(100)

    expect(rows).to_have_count(100)
    expect(page.get_by_test_id("older")).to_be_hidden()
    expect(rows.last).to_contain_text("Question 0 ")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844), (640, 400)])
def test_filtered_list_has_no_fault_of_access_and_fits(
    historian: Visitor, theme: str, width: int, height: int
) -> None:
    """On a phone and at 200 % zoom every filter has a name and stays on the screen."""
    page = history(historian, "?text=stove&person=child", theme=theme, width=width, height=height)

    assert faults(page, every=True) == []
    assert page.evaluate("document.querySelector('main').scrollWidth - innerWidth") <= 0
