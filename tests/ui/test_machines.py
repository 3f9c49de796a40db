"""The machines on the page: what is measured, and the restart of a service."""

import re
import socket

import pytest
from playwright.sync_api import Page, expect

from tests.ui.conftest import Visitor, faults


def machines(visitor: Visitor, width: int = 1280, theme: str = "light") -> Page:
    visitor.house.model.expert["instances"] = [
        {"machine": "", "model": "scripted", "healthy": True, "tokens_per_second": 21.5}
    ]
    page = visitor.enter(width=width, theme=theme)
    page.get_by_test_id("nav-status").click()
    page.get_by_test_id("tab-machines").click()
    page.get_by_test_id("machine").wait_for()
    return page


def test_machine_shows_its_measurements_and_the_speed_of_its_expert(visitor: Visitor) -> None:
    """Whether the machine is busy, full or hot, and how fast it writes, in one place."""
    page = machines(visitor)

    expect(page.get_by_role("heading", name=socket.gethostname())).to_be_visible()
    expect(page.locator(".meter[data-name=Processor] dd")).to_have_text(re.compile(r"^\d+ %$"))
    for name in ("Memory", "Disk"):
        expect(page.locator(f".meter[data-name={name}] dd")).to_have_text(
            re.compile(r"[\d.]+ [GM]B of [\d.]+ GB")
        )
        expect(page.get_by_role("meter", name=name)).to_be_visible()
    for name in ("Temperature", "Power"):
        expect(page.locator(f".meter[data-name={name}] dd")).to_have_text(
            re.compile(r"not measured|\d+ °C|[\d.]+ W")
        )
    expect(page.locator(".meter[data-name=scripted] dd")).to_have_text("22 tokens per second")
    expect(page.get_by_test_id("machine")).to_contain_text("up for")
    expect(page.get_by_test_id("freshness")).to_contain_text("Measured just now")


def test_service_that_cannot_be_restarted_from_here_tells_why(visitor: Visitor) -> None:
    """The services of this test were started by no `hearth up`."""
    page = machines(visitor)

    page.get_by_role("button", name="Restart moe-gateway").click()
    expect(page.get_by_test_id("dialog")).to_contain_text("Requests that it works on now fail.")
    page.get_by_test_id("dialog-confirm").click()

    expect(page.get_by_test_id("restart-refusal")).to_contain_text("not started by `hearth up`")
    assert faults(page, every=True) == []


def test_measurements_are_called_old_when_they_cannot_be_read_again(visitor: Visitor) -> None:
    """A green picture of a machine that is off misleads."""
    page = machines(visitor)

    page.route("**/api/machines", lambda route: route.fulfill(status=502))

    expect(page.get_by_test_id("problem")).to_contain_text("What is shown is old")
    expect(page.get_by_test_id("freshness").locator("time")).to_have_text(re.compile(r"s ago"))


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 768, 1280])
def test_machines_have_no_fault_of_access(visitor: Visitor, theme: str, width: int) -> None:
    """At every width and in both themes."""
    page = machines(visitor, width, theme)

    assert faults(page, every=True) == []
    wide = "document.querySelector('main').scrollWidth - document.querySelector('main').clientWidth"
    assert page.evaluate(wide) <= 0
