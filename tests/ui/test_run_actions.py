"""Actions on one run and on many: start again, fork, pin, changes, export, delete, compare."""

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.integration.agent.conftest import follow
from tests.ui.conftest import Visitor, faults

DOCUMENT = """id: rhyme
inputs: {text: text}
steps:
  - {id: opening, use: llm, with: {text: "Rhyme on {{ inputs.text }}"}}
  - {id: pause, use: wait, with: {seconds: 0.3}}
  - {id: second, use: llm, with: {text: "Second line after {{ opening.text }}"}}
  - {id: keep, use: file.write, with: {path: rhyme.txt, text: "{{ second.text }}\\n"}}
outputs: {text: "{{ second.text }}"}
"""


def started(visitor: Visitor, text: str = "tea", document: str = DOCUMENT) -> str:
    """A run that has ended."""
    with visitor.house.client() as client:
        body = {"document": document, "inputs": {"text": text}}
        run = str(client.post("/api/runs", json=body).raise_for_status().json()["run"])
        with client.stream("GET", f"/api/runs/{run}/events") as events:
            follow(events)
    return run


def opened(visitor: Visitor, run: str, step: str = "", **how: Any) -> Page:
    """The page of a run, or of one of its steps."""
    page = visitor.enter(**how)
    page.goto(f"{visitor.house.address}/#/runs/{run}{step and f'?step={step}'}")
    expect(page.get_by_test_id("run-status")).to_have_text("Done")
    return page


def outputs(visitor: Visitor, page: Page) -> tuple[dict[str, str], str | None]:
    """The outputs and the origin of the run that the page shows, once it is done."""
    expect(page.get_by_test_id("run-status")).to_have_text("Done")
    with visitor.house.client() as client:
        view = client.get(f"/api/runs/{page.url.rsplit('/', 1)[1].partition('?')[0]}").json()
    return view["outputs"], view["forked"]


def test_run_is_started_again_and_forked_from_a_step(visitor: Visitor) -> None:
    """Another try costs one press, and what was good of the first one is kept."""
    for line in ("the sea", "a bee"):
        visitor.house.model.when("Rhyme on").say(line).say(line)
    visitor.house.model.when("Second line").say("one").say("two").say("three")
    run = started(visitor)
    page = opened(visitor, run)

    page.get_by_test_id("run-again").click()
    page.wait_for_url(lambda url: run not in url)
    assert outputs(visitor, page) == ({"text": "two"}, None)

    page.goto(f"{visitor.house.address}/#/runs/{run}?step=second")
    page.get_by_test_id("run-fork").click()
    page.wait_for_url(lambda url: run not in url)
    assert outputs(visitor, page) == ({"text": "three"}, run)
    expect(page.get_by_test_id("gantt").locator("rect")).to_have_count(4)


def test_output_of_a_step_is_pinned_as_a_layer_and_for_another_run(visitor: Visitor) -> None:
    """A good answer of the model is held fixed while the steps after it are worked on."""
    visitor.house.model.when("Second line").say("one").say("two")
    with visitor.house.client() as client:
        client.put("/api/workflows/rhyme/document", json={"document": DOCUMENT}).raise_for_status()
    run = started(visitor)
    page = opened(visitor, run, "second")

    page.get_by_test_id("run-pin").click()
    expect(page.get_by_test_id("dialog")).to_contain_text("second.cache: pin")
    assert faults(page, every=True) == []
    page.get_by_test_id("dialog-save").click()
    expect(page.get_by_test_id("run-done")).to_contain_text("Saved as layer pin-second")
    page.get_by_test_id("run-pin").click()
    page.get_by_test_id("dialog-run").click()
    page.wait_for_url(lambda url: run not in url)

    assert outputs(visitor, page)[0] == {"text": "one"}
    with visitor.house.client() as client:
        assert "pin-second" in client.get("/api/layers").text


def test_changes_export_and_delete_of_a_run(visitor: Visitor, tmp_path: Path) -> None:
    """What a run did to files is read before it is thrown away."""
    visitor.house.model.when("Second line").say("a kettle sings")
    run = started(visitor)
    page = opened(visitor, run)

    page.get_by_test_id("run-changes").click()
    expect(page.get_by_test_id("diff")).to_contain_text("+a kettle sings")
    assert faults(page, every=True) == []
    page.keyboard.press("Escape")
    expect(page.get_by_test_id("run-changes")).to_be_focused()
    with page.expect_download() as download:
        page.get_by_test_id("run-export").click()
    download.value.save_as(file := tmp_path / "run.jsonl")
    first = json.loads(file.read_text(encoding="utf-8").splitlines()[0])
    assert (first["table"], first["id"]) == ("run", run)

    page.get_by_test_id("run-delete").click()
    page.get_by_test_id("dialog-close").click()
    expect(page.get_by_test_id("run-status")).to_have_text("Done")
    page.get_by_test_id("run-delete").click()
    page.get_by_test_id("dialog-confirm").click()
    expect(page.get_by_test_id("empty")).to_contain_text("No runs yet")
    with visitor.house.client() as client:
        assert client.get(f"/api/runs/{run}").status_code == 404


def test_chosen_runs_are_compared_exported_and_deleted_together(
    visitor: Visitor, tmp_path: Path
) -> None:
    """Forty tries of an evening are tidied up at once, and two of them are set side by side."""
    runs = [started(visitor, text) for text in ("tea", "milk", "coffee")]
    page = visitor.enter()
    page.get_by_test_id("nav-runs").click()
    rows = page.get_by_test_id("run")
    expect(rows).to_have_count(3)

    expect(page.get_by_test_id("bulk")).to_be_hidden()
    rows.filter(has_text="tea").get_by_test_id("pick").check()
    rows.filter(has_text="milk").get_by_test_id("pick").check()
    expect(page.get_by_test_id("picked")).to_have_text("2 chosen")
    page.get_by_test_id("bulk-compare").click()
    expect(page.get_by_test_id("compare-totals")).to_contain_text("milk")
    assert page.url.endswith(f"#/runs/{runs[0]}?with={runs[1]}")
    page.go_back()

    page.get_by_test_id("pick-all").check()
    expect(page.get_by_test_id("picked")).to_have_text("3 chosen")
    rows.filter(has_text="coffee").get_by_test_id("pick").uncheck()
    with page.expect_download() as download:
        page.get_by_test_id("bulk-export").click()
    download.value.save_as(file := tmp_path / "runs.jsonl")
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert [line["id"] for line in lines if line["table"] == "run"] == runs[:2]
    page.get_by_test_id("bulk-delete").click()
    expect(page.get_by_test_id("dialog")).to_contain_text("Delete 2 runs?")
    page.get_by_test_id("dialog-confirm").click()
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("coffee")
    expect(page.get_by_test_id("bulk")).to_be_hidden()


def test_run_that_is_refused_to_be_deleted_stays_with_the_reason(visitor: Visitor) -> None:
    """A run that waits for a person must not vanish with others of a selection."""
    asking = "id: ask\nsteps: [{id: a, use: human.ask, with: {question: Well?}}]\n"
    with visitor.house.client() as client:
        client.post("/api/runs", json={"document": asking}).raise_for_status()
    page = visitor.enter()
    page.get_by_test_id("nav-runs").click()
    expect(page.get_by_test_id("run")).to_contain_text("Waiting")
    page.get_by_test_id("pick").check()
    page.get_by_test_id("bulk-delete").click()
    page.get_by_test_id("dialog-confirm").click()

    expect(page.get_by_test_id("problem")).to_contain_text("has not ended. Stop it first.")
    expect(page.get_by_test_id("run")).to_have_count(1)


def test_timeline_shows_when_each_step_ran_and_opens_one(visitor: Visitor) -> None:
    """Where the time went is seen before anything is read."""
    run = started(visitor)
    page = opened(visitor, run)
    bars = page.get_by_test_id("gantt").locator("rect")
    with visitor.house.client() as client:
        steps = client.get(f"/api/runs/{run}").json()["steps"]

    expect(bars).to_have_count(5)
    boxes = {bar.get_attribute("data-path"): bar.bounding_box() for bar in bars.all()}
    lefts = [box["x"] for box in boxes.values() if box]
    longest = max(steps, key=lambda step: step["seconds"])["path"]
    assert lefts == sorted(lefts)
    assert max(boxes, key=lambda path: (boxes[path] or {"width": 0})["width"]) == longest
    expect(page.get_by_role("img", name="Timeline of 5 steps")).to_be_visible()
    page.locator("rect[data-path=pause]").click()
    expect(page.get_by_test_id("inspector")).to_contain_text("pause")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844), (640, 400)])
def test_actions_have_no_fault_of_access_and_fit(
    visitor: Visitor, theme: str, width: int, height: int
) -> None:
    """On a phone and at 200 % zoom every button has a name and stays on the screen."""
    page = opened(visitor, started(visitor), "second", theme=theme, width=width, height=height)
    wide = "document.querySelector('main').scrollWidth > innerWidth"
    page.get_by_test_id("run-pin").wait_for()
    found = {"run": faults(page, every=True), "run is wide": page.evaluate(wide)}
    page.get_by_test_id("run-delete").click()
    found["dialog"] = faults(page, every=True)
    page.get_by_test_id("dialog-close").click()
    page.get_by_test_id("nav-runs").click()
    page.get_by_test_id("pick").check()
    found |= {"list": faults(page, every=True), "list is wide": page.evaluate(wide)}

    assert found == {
        "run": [], "run is wide": False, "dialog": [], "list": [], "list is wide": False,
    }  # fmt: skip
