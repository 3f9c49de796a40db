"""The events of a run, played, stepped and rewound on its page."""

import threading
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.ui.conftest import Visitor, faults
from tests.ui.test_run_actions import opened
from tests.ui.test_run_actions import started as run_to_end

DOCUMENT = """id: pair
inputs: {text: text}
steps:
  - {id: one, use: llm, with: {text: "Say {{ inputs.text }}"}}
  - {id: two, use: value, with: {value: "{{ one.text | upper }}"}}
outputs: {text: "{{ two.value }}"}
"""


def replay(visitor: Visitor, **how: Any) -> Page:
    """The page of a run that has ended, with its replay open at the last event."""
    page = opened(visitor, run_to_end(visitor, "tea", DOCUMENT), **how)
    page.get_by_test_id("run-replay").click()
    expect(page.get_by_test_id("player-event")).to_have_text("The run is done")
    return page


def states(page: Page) -> list[str | None]:
    """The states of both nodes of the graph."""
    return [
        page.locator(f".graph-node[data-path={path}]").get_attribute("data-state")
        for path in ("one", "two")
    ]


@pytest.mark.proves("003-50")
def test_run_is_rewound_stepped_and_played(visitor: Visitor) -> None:
    """How a run came to its end is watched again, one event at a time or as a film."""
    visitor.house.model.when("Say").say("a kettle")
    page = replay(visitor)
    words, badge = page.get_by_test_id("player-event"), page.get_by_test_id("run-status")
    steps = page.locator(".run-steps").get_by_test_id("step")

    page.get_by_test_id("player-rewind").click()
    expect(words).to_have_text("Before the first event")
    expect(badge).to_have_text("Queued")
    expect(steps).to_have_count(0)
    assert states(page) == ["idle", "idle"]
    seen = []
    for _ in range(6):
        page.get_by_test_id("player-forward").click()
        seen.append((words.text_content(), badge.text_content(), *states(page), steps.count()))
    assert seen == [
        ("The run started", "Running", "idle", "idle", 0),
        ("one starts", "Running", "running", "idle", 1),
        ("one is done", "Running", "done", "idle", 1),
        ("two starts", "Running", "done", "running", 2),
        ("two is done", "Running", "done", "done", 2),
        ("The run is done", "Done", "done", "done", 2),
    ]

    page.get_by_test_id("player-slider").fill("2")
    page.locator(".graph-node[data-path=one]").click()
    expect(page.get_by_test_id("inspector-output")).to_have_count(0)
    expect(page.get_by_test_id("run-fork")).to_be_hidden()
    page.get_by_test_id("player-slider").press("ArrowRight")
    expect(page.get_by_test_id("inspector-output")).to_contain_text("a kettle")
    page.get_by_test_id("player-back").click()
    expect(words).to_have_text("one starts")
    page.get_by_test_id("player-play").click()
    expect(words).to_have_text("The run is done")
    expect(page.get_by_test_id("player-play")).to_have_attribute("aria-label", "Play")
    expect(badge).to_have_text("Done")
    page.get_by_test_id("player-rewind").click()
    page.get_by_test_id("run-replay").click()
    expect(page.get_by_test_id("player")).to_be_hidden()
    expect(badge).to_have_text("Done")


def test_running_run_goes_on_while_it_is_rewound(visitor: Visitor) -> None:
    """Looking back must neither stop what happens nor hide it for good."""
    held = threading.Event()
    visitor.house.model.when("Say").say("a kettle", held=held)
    with visitor.house.client() as client:
        body = {"document": DOCUMENT, "inputs": {"text": "tea"}}
        run = client.post("/api/runs", json=body).raise_for_status().json()["run"]
    page = visitor.enter()
    page.goto(f"{visitor.house.address}/#/runs/{run}")
    expect(page.get_by_test_id("run-status")).to_have_text("Running")
    page.get_by_test_id("run-replay").click()
    expect(page.get_by_test_id("player-event")).to_have_text("one starts")

    page.get_by_test_id("player-back").click()
    held.set()
    expect(page.get_by_test_id("player-time")).to_contain_text("1 of 6")
    assert states(page) == ["idle", "idle"]
    page.get_by_test_id("player-slider").fill("6")

    expect(page.get_by_test_id("run-status")).to_have_text("Done")
    assert states(page) == ["done", "done"]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844), (640, 400)])
def test_replay_has_no_fault_of_access_and_fits(
    visitor: Visitor, theme: str, width: int, height: int
) -> None:
    """The slider says where it is, and its buttons are within reach of a thumb."""
    page = replay(visitor, theme=theme, width=width, height=height)
    page.get_by_test_id("player-back").click()
    page.get_by_test_id("player-back").click()

    assert faults(page, every=True) == []
    assert page.evaluate("document.querySelector('main').scrollWidth - innerWidth") <= 0
    expect(page.get_by_test_id("player-slider")).to_have_attribute(
        "aria-valuetext", "Event 4 of 6: two starts"
    )
