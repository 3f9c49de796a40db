"""The models on the page: what fits, downloads with progress, and the hint at a better one."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.integration.agent.test_models import write_catalogue
from tests.integration.models.conftest import CONTENT
from tests.integration.models.held import HeldHub
from tests.ui.conftest import Serve, Visitor, faults


@pytest.fixture
def hub(visitor: Visitor, serve: Serve, tmp_path: Path) -> Iterator[HeldHub]:
    """A hub whose answers stop in the middle, in the catalogue of the visited instance."""
    hub = HeldHub(CONTENT)
    write_catalogue(tmp_path / "models.yaml", f"{serve(hub)}/tiny.gguf")
    visitor.house.more["catalogue"] = str(tmp_path / "models.yaml")
    visitor.restart()
    yield hub
    hub.go_on.set()


def models(visitor: Visitor, width: int = 1280, theme: str = "light") -> Page:
    page = visitor.enter(width=width, theme=theme)
    page.get_by_test_id("nav-status").click()
    page.get_by_test_id("tab-models").click()
    page.get_by_test_id("model").first.wait_for()
    return page


def row_of(page: Page, name: str = "tiny") -> Locator:
    return page.locator(f"[data-testid=model][data-name={name}]")


def test_catalogue_shows_what_fits_this_machine(visitor: Visitor, hub: HeldHub) -> None:
    """Nobody has to know how many bytes a model of nine billion parameters takes."""
    page = models(visitor)

    expect(page.get_by_test_id("models-machine")).to_have_text(
        re.compile(r"This machine has .* GB of memory · .* of disk free")
    )
    expect(page.get_by_test_id("models-fits").get_by_test_id("model")).to_have_count(1)
    expect(row_of(page)).to_contain_text("2M parameters · 512 tokens of context · 1 MB to download")
    expect(page.get_by_test_id("models-large")).to_contain_text("Too large for")
    expect(row_of(page, "giant").get_by_role("button", name="Download giant")).to_be_visible()


def test_download_is_followed_cancelled_and_resumed(visitor: Visitor, hub: HeldHub) -> None:
    """One sees the bytes come, stops for the evening, and goes on with the other half."""
    page = models(visitor)
    row_of(page).get_by_test_id("model-pull").click()

    expect(row_of(page).get_by_test_id("model-bytes")).to_have_text("downloading · 525 kB of 1 MB")
    expect(row_of(page).get_by_test_id("model-progress")).to_have_js_property(
        "value", len(CONTENT) // 2
    )
    assert faults(page, every=True) == []
    row_of(page).get_by_test_id("model-cancel").click()
    expect(row_of(page)).to_contain_text("The download was cancelled. What has come is kept.")
    hub.go_on.set()
    row_of(page).get_by_role("button", name="Try again tiny").click()

    expect(page.get_by_test_id("models-here").locator("[data-name=tiny]")).to_be_visible()
    expect(row_of(page)).to_contain_text("Downloaded")
    assert hub.hub.ranges[1].startswith("bytes=")
    row_of(page).get_by_test_id("model-remove").click()
    page.get_by_test_id("dialog-confirm").click()
    expect(row_of(page).get_by_test_id("model-pull")).to_be_visible()


def test_failed_download_tells_the_reason_in_its_row(visitor: Visitor, hub: HeldHub) -> None:
    """A file that is not the pinned one is never used."""
    hub.go_on.set()
    hub.hub.content = b"X" + CONTENT[1:]
    page = models(visitor)

    row_of(page).get_by_test_id("model-pull").click()

    expect(row_of(page).get_by_test_id("model-fault")).to_contain_text(
        "its sha256 is not the one that the catalogue has for tiny"
    )
    assert faults(page, every=True) == []


def test_demo_model_is_named_on_the_first_visit_with_the_way_to_a_better_one(
    visitor: Visitor, hub: HeldHub
) -> None:
    """Who judges Hearth by 135 million parameters would leave."""
    hub.go_on.set()
    page = visitor.enter()
    notice = page.get_by_test_id("demo-notice")
    expect(notice).to_contain_text("smollm2 answers, a demo model with 1M parameters.")
    assert faults(page, every=True) == []

    page.get_by_test_id("demo-link").click()
    page.get_by_test_id("demo-model-get").click()

    expect(row_of(page)).to_contain_text("Downloaded")
    expect(page.get_by_test_id("demo-model-get")).to_have_text("Use tiny")
    page.get_by_test_id("nav-chat").click()
    page.get_by_test_id("demo-close").click()
    page.reload()
    page.get_by_test_id("composer").wait_for()
    expect(notice).to_have_count(0)


def test_without_hearth_up_the_command_is_shown(visitor: Visitor, hub: HeldHub) -> None:
    """A button that cannot work would be worse than none."""
    hub.go_on.set()
    page = models(visitor)
    row_of(page).get_by_test_id("model-pull").click()

    row_of(page).get_by_test_id("model-explain").click()

    expect(page.get_by_test_id("dialog")).to_contain_text("hearth models use tiny")
    assert faults(page, every=True) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 768, 1280])
def test_models_have_no_fault_of_access(
    visitor: Visitor, hub: HeldHub, theme: str, width: int
) -> None:
    """At every width and in both themes, with a download under way."""
    page = models(visitor, width, theme)
    row_of(page).get_by_test_id("model-pull").click()
    row_of(page).get_by_test_id("model-progress").wait_for()

    assert faults(page, every=True) == []
    wide = "document.querySelector('main').scrollWidth - document.querySelector('main').clientWidth"
    assert page.evaluate(wide) <= 0
