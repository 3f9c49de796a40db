"""The list of conversations: search, rename, export, delete; by mouse and by keyboard."""

import threading
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.ui.conftest import Visitor, ended, faults, say


def talked(visitor: Visitor, **how: Any) -> Page:
    """A page with two conversations in its list; the one about tea is shown."""
    visitor.house.model.when("tea").say("The café closes at six.")
    page = visitor.enter(**how)
    ended(say(page, "Light the stove"))
    # The list lies behind the conversation on a narrow screen.
    page.get_by_test_id("new-chat").evaluate("(link) => link.click()")
    expect(page.get_by_test_id("turn")).to_have_count(0)
    ended(say(page, "Where is tea?"))
    expect(page.get_by_test_id("conversation")).to_have_count(2)
    return page


def menu_of(page: Page, title: str) -> Locator:
    return page.get_by_role("button", name=f"Actions for “{title}”")


def item(page: Page, name: str) -> Locator:
    """An item of the menu that is open."""
    return page.locator(":popover-open").get_by_test_id(f"menu-{name}")


def test_search_finds_conversations_and_the_address_keeps_it(visitor: Visitor) -> None:
    """A word of an answer leads to its talk, also after a reload."""
    page = talked(visitor)
    rows = page.get_by_test_id("conversation")

    page.get_by_test_id("conversation-search").fill("stove")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("Light the stove")
    assert page.url.endswith("?text=stove")
    rows.click()
    expect(page.get_by_test_id("question")).to_contain_text("Light the stove")
    assert page.url.endswith("?text=stove")
    page.reload()
    expect(page.get_by_test_id("conversation-search")).to_have_value("stove")
    expect(rows).to_have_count(1)

    page.get_by_test_id("conversation-search").fill("cafe")
    expect(rows).to_contain_text("Where is tea?")
    page.get_by_test_id("conversation-search").fill("zebra")
    expect(page.get_by_test_id("conversations")).to_contain_text("No conversation has these words.")


def test_conversation_is_renamed_by_keyboard_alone(visitor: Visitor) -> None:
    """Hands that cannot use a mouse reach every action, and Escape changes nothing."""
    page = talked(visitor)
    button = menu_of(page, "Light the stove")
    button.focus()
    page.keyboard.press("Enter")
    expect(item(page, "rename")).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(page.locator(":focus")).to_have_text("Delete…")
    page.keyboard.press("Escape")
    expect(button).to_be_focused()
    expect(button).to_have_attribute("aria-expanded", "false")

    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("new-title")).to_be_focused()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("Draft")
    page.keyboard.press("Escape")
    expect(button).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("Winter")
    page.keyboard.press("Enter")

    expect(menu_of(page, "Winter")).to_be_focused()
    expect(page.get_by_test_id("conversation").last).to_contain_text("Winter")
    page.reload()
    expect(page.get_by_test_id("conversation").last).to_contain_text("Winter")


def test_conversation_is_exported_as_markdown_and_json(visitor: Visitor, tmp_path: Path) -> None:
    """What was said belongs to the person, in a form that other programs read."""
    page = talked(visitor)
    texts = {}
    for name in ("markdown", "json"):
        menu_of(page, "Where is tea?").click()
        with page.expect_download() as download:
            item(page, name).click()
        download.value.save_as(file := tmp_path / download.value.suggested_filename)
        texts[file.name] = file.read_text(encoding="utf-8")

    assert texts["Where-is-tea.md"].startswith("# Where is tea?\n")
    assert "The café closes at six." in texts["Where-is-tea.md"]
    assert '"assistant": "The café closes at six."' in texts["Where-is-tea.json"]


def test_deleted_conversation_is_gone_in_both_tabs_and_drafts_stay(visitor: Visitor) -> None:
    """A talk is deleted once, also while its answer comes; what is being written is not lost."""
    held = threading.Event()
    visitor.house.model.when("forever").say("one two three", held=held, held_after=2)
    page = talked(visitor)
    running = say(page, "Talk forever")
    expect(running.get_by_test_id("answer")).to_have_text("one two")
    second = page.context.new_page()
    second.goto(page.url)
    expect(second.get_by_test_id("turn")).to_have_count(2)
    for tab, draft in ((page, "First draft"), (second, "Second draft")):
        tab.get_by_test_id("composer").fill(draft)

    page.bring_to_front()
    menu_of(page, "Where is tea?").click()
    item(page, "delete").click()
    expect(page.get_by_test_id("dialog")).to_contain_text("“Where is tea?” is removed")
    page.keyboard.press("Escape")
    expect(page.get_by_test_id("turn")).to_have_count(2)
    expect(menu_of(page, "Where is tea?")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    page.get_by_test_id("dialog-confirm").click()

    for tab, draft in ((page, "First draft"), (second, "Second draft")):
        expect(tab.get_by_test_id("turn")).to_have_count(0)
        expect(tab.get_by_test_id("composer")).to_have_value(draft)
        expect(tab.get_by_test_id("conversation")).to_have_count(1)
        assert tab.url.endswith("#/chat")
    with visitor.house.client() as client:
        assert len(client.get("/api/runs").json()["runs"]) == 1
    visitor.house.model.wait_until(lambda model: model.aborted == 1)


def test_refused_deletion_says_why_and_keeps_the_list(visitor: Visitor) -> None:
    """Another device was quicker: the list says so and is read again."""
    page = talked(visitor)
    menu_of(page, "Light the stove").click()
    item(page, "delete").click()
    with visitor.house.client() as client:
        listed = client.get("/api/conversations").json()["conversations"]
        client.delete(f"/api/conversations/{listed[-1]['id']}").raise_for_status()
    page.get_by_test_id("dialog-confirm").click()

    expect(page.get_by_test_id("conversation-fault")).to_be_visible()
    expect(page.get_by_test_id("conversation-fault")).to_contain_text("There is no conversation")
    expect(page.get_by_test_id("conversation")).to_have_count(1)


SCREENS = [(320, 640), (768, 1024), (1280, 800), (844, 390), (640, 400)]
"""Phone, tablet, desk, a phone on its side, and 1280 x 800 at 200 % zoom."""


@pytest.mark.parametrize(
    ("theme", "width", "height"),
    [("dark", *SCREENS[0]), *(("light", *screen) for screen in SCREENS)],
)
def test_list_menu_and_dialogs_have_no_fault_of_access_and_fit(
    visitor: Visitor, theme: str, width: int, height: int
) -> None:
    """Every name is read aloud, every colour is legible, and nothing leaves the screen."""
    page = talked(visitor, theme=theme, width=width, height=height)
    if page.get_by_test_id("toggle-side").is_visible():
        page.get_by_test_id("toggle-side").click()
    found = {"list": faults(page, every=True)}
    menu_of(page, "Light the stove").click()
    found["menu"] = faults(page, every=True)
    outside = outside_of(page, "menu")
    item(page, "rename").click()
    found["rename"] = faults(page, every=True)
    outside += outside_of(page, "dialog")
    page.keyboard.press("Escape")
    menu_of(page, "Light the stove").click()
    item(page, "delete").click()
    found["delete"] = faults(page, every=True)
    outside += outside_of(page, "dialog")

    assert found == {"list": [], "menu": [], "rename": [], "delete": []}
    assert outside == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def outside_of(page: Page, test_id: str) -> list[str]:
    """The name of what is shown, if a part of it is outside of the window."""
    box = page.get_by_test_id(test_id).and_(page.locator(":visible")).bounding_box()
    size = page.viewport_size
    assert box
    assert size
    fits = (
        box["x"] >= 0
        and box["y"] >= 0
        and box["x"] + box["width"] <= size["width"]
        and box["y"] + box["height"] <= size["height"]
    )
    return [] if fits else [f"{test_id}: {box}"]
