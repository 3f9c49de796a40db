"""The page of logs: what the services write, as they write it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from hearth.local.process.logfile import LogFile
from tests.ui.conftest import Visitor, faults


@pytest.fixture
def gateway_log(visitor: Visitor) -> Iterator[LogFile]:
    """The file in which `hearth up` keeps what the gateway writes."""
    log = LogFile(visitor.house.state / "logs" / "moe-gateway.log")
    yield log
    log.close()


@pytest.fixture
def other_log(visitor: Visitor) -> Iterator[LogFile]:
    """That of another service."""
    log = LogFile(visitor.house.state / "logs" / "speech-stt.log")
    yield log
    log.close()


@pytest.mark.proves("004-41")
def test_button_clears_the_view_and_what_is_new_comes_after_it(
    visitor: Visitor, gateway_log: LogFile
) -> None:
    """Who tries something again wants to see what that writes, and nothing from before; what was
    cleared away does not come back, and stays in the file."""
    gateway_log.write("first \x1b[31mline\x1b[0m")
    gateway_log.write("second line")
    page = visitor.enter()
    page.get_by_test_id("nav-status").click()
    page.get_by_test_id("tab-logs").click()
    lines = page.get_by_test_id("log-line")
    expect(lines.locator(".log-text")).to_have_text(["first line", "second line"])
    assert faults(page) == []

    page.get_by_test_id("logs-clear").click()
    expect(lines).to_have_count(0)
    gateway_log.write("third line")

    expect(lines.locator(".log-text")).to_have_text(["third line"])
    expect(lines.locator(".log-service")).to_have_text(["moe-gateway"])
    assert "second line" in Path(gateway_log.path).read_text(encoding="utf-8")


def test_lines_are_filtered_and_held_still(
    visitor: Visitor, gateway_log: LogFile, other_log: LogFile
) -> None:
    """A hundred lines a second cannot be read."""
    gateway_log.write("Alpha of the gateway")
    other_log.write("alpha of the ears")
    other_log.write("beta of the ears")
    page = visitor.enter()
    page.get_by_test_id("nav-status").click()
    page.get_by_test_id("tab-logs").click()
    lines = page.get_by_test_id("log-line").locator(".log-text")
    expect(lines).to_have_count(3)

    page.get_by_test_id("logs-filter").fill("alpha")
    expect(lines).to_have_text(["Alpha of the gateway", "alpha of the ears"])
    page.get_by_test_id("logs-service").select_option("speech-stt")
    expect(lines).to_have_text(["alpha of the ears"])

    page.get_by_test_id("logs-pause").click()
    expect(page.get_by_test_id("logs-pause")).to_have_attribute("aria-pressed", "true")
    other_log.write("alpha while it is held")
    asked = "performance.getEntriesByType('resource').filter(e => e.name.includes('/api/logs'))"
    before = len(page.evaluate(asked))
    page.wait_for_timeout(2500)  # In which it would have looked twice.
    assert len(page.evaluate(asked)) <= before + 1
    expect(lines).to_have_count(1)
    page.get_by_test_id("logs-pause").click()
    expect(lines).to_have_text(["alpha of the ears", "alpha while it is held"])


def test_selected_text_stays_selected_while_lines_arrive(
    visitor: Visitor, gateway_log: LogFile
) -> None:
    """One who copies a line out of a busy log must not lose the selection every second."""
    gateway_log.write("the line to copy")
    page = visitor.enter()
    page.get_by_test_id("nav-status").click()
    page.get_by_test_id("tab-logs").click()
    lines = page.get_by_test_id("log-line").locator(".log-text")
    lines.first.select_text()

    gateway_log.write("another line")

    expect(lines).to_have_text(["the line to copy", "another line"])
    assert page.evaluate("getSelection().toString()") == "the line to copy"


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (844, 390), (390, 844)])
def test_lines_do_not_touch_the_edges(
    visitor: Visitor, gateway_log: LogFile, width: int, height: int
) -> None:
    """The heading and the lines have the padding that every other page has."""
    for number in range(100):
        gateway_log.write(f"line {number}")
    page = visitor.enter(width=width, height=height)
    page.get_by_test_id("nav-status").click()
    page.get_by_test_id("tab-logs").click()
    page.get_by_test_id("log-line").first.wait_for()

    main = page.locator("main").bounding_box()
    heading = page.get_by_role("heading", level=1).bounding_box()
    view = page.get_by_test_id("logs").bounding_box()

    assert main is not None
    assert heading is not None
    assert view is not None
    assert heading["x"] - main["x"] >= 12
    assert heading["y"] - main["y"] >= 8
    assert view["x"] - main["x"] >= 12
    assert main["x"] + main["width"] - view["x"] - view["width"] >= 12
    assert view["y"] + view["height"] <= main["y"] + main["height"]


def test_lines_are_filtered_by_level_and_downloaded(
    visitor: Visitor, gateway_log: LogFile, other_log: LogFile, tmp_path: Path
) -> None:
    """Who sends a report of an error takes the lines about it, with the traceback below."""
    gateway_log.write("level=info event=ready")
    gateway_log.write("level=warning event=slow")
    gateway_log.write("level=error event=broken")
    gateway_log.write("ValueError: of the traceback")
    other_log.write("loading the voice")
    page = visitor.enter()
    page.get_by_test_id("nav-status").click()
    page.get_by_test_id("tab-logs").click()
    lines = page.get_by_test_id("log-line").locator(".log-text")
    expect(lines).to_have_count(5)

    page.get_by_test_id("logs-level").select_option("warning")
    expect(lines).to_have_count(3)
    page.get_by_test_id("logs-level").select_option("error")
    expect(lines).to_have_text(["level=error event=broken", "ValueError: of the traceback"])
    assert faults(page) == []
    with page.expect_download() as download:
        page.get_by_test_id("logs-download").click()
    download.value.save_as(tmp_path / "logs.txt")

    assert download.value.suggested_filename == "hearth-logs.txt"
    saved = (tmp_path / "logs.txt").read_text(encoding="utf-8").splitlines()
    assert [line.split(" ", 1)[1] for line in saved] == [
        "moe-gateway level=error event=broken",
        "moe-gateway ValueError: of the traceback",
    ]
