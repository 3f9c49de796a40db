"""Edit a question, answer once more, switch versions, branch, pin; by mouse and by keyboard."""

from playwright.sync_api import Page, expect

from tests.ui.chat.test_conversation_list import item, menu_of
from tests.ui.conftest import Visitor, ended, faults, say


def asked(visitor: Visitor, **how: int) -> Page:
    """A conversation of three turns."""
    visitor.house.model.when("stove").say("It burns.")
    page = visitor.enter(**how)
    for text in ("Light the stove", "And the lamp?", "Thanks"):
        ended(say(page, text))
    return page


def test_question_is_edited_by_keyboard_and_every_version_stays_reachable(
    visitor: Visitor,
) -> None:
    """A typo is corrected where it is; what was said before the edit is one key away."""
    page = asked(visitor)
    second = page.get_by_test_id("turn").nth(1)
    second.get_by_test_id("edit").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("edit-text")).to_be_focused()
    expect(page.get_by_test_id("edit-text")).to_have_value("And the lamp?")
    assert faults(page, every=True) == []
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("And the candle?")
    page.keyboard.press("Enter")

    turns = page.get_by_test_id("turn")
    expect(turns).to_have_count(2)
    ended(turns.last)
    expect(turns.last.get_by_test_id("question")).to_contain_text("And the candle?")
    versions = turns.last.get_by_test_id("versions")
    expect(versions).to_contain_text("2 of 2")
    versions.get_by_role("button", name="Earlier version").focus()
    page.keyboard.press("Enter")
    expect(turns).to_have_count(3)
    expect(turns.nth(1).get_by_test_id("versions")).to_contain_text("1 of 2")
    expect(turns.nth(1).get_by_test_id("later")).to_be_focused()
    assert faults(page, every=True) == []
    page.reload()
    expect(turns).to_have_count(3)
    page.get_by_test_id("later").click()
    expect(turns).to_have_count(2)
    expect(turns.last.get_by_test_id("question")).to_contain_text("And the candle?")


def test_edit_that_is_left_changes_nothing(visitor: Visitor) -> None:
    """Escape, Cancel and an unchanged question ask no model."""
    page = asked(visitor)
    edit, field = page.get_by_test_id("edit").nth(1), page.get_by_test_id("edit-text")
    for leave in ("Escape", "Enter"):
        edit.focus()
        page.keyboard.press("Enter")
        if leave == "Escape":
            field.fill("something else")
        field.press(leave)
        expect(edit).to_be_focused()
    edit.press("Enter")
    page.get_by_test_id("edit-cancel").click()
    expect(edit).to_be_focused()
    expect(page.get_by_test_id("question").nth(1)).to_contain_text("And the lamp?")
    assert len(visitor.house.model.requests) == 3


def test_answer_is_given_once_more_and_other_tabs_show_it(visitor: Visitor) -> None:
    """The same question, another answer; a second tab follows, also to an earlier version."""
    page = asked(visitor)
    second = page.context.new_page()
    second.goto(page.url)
    expect(second.get_by_test_id("turn")).to_have_count(3)
    visitor.house.model.when("lamp").say("It glows.")
    turn = page.get_by_test_id("turn").nth(1)
    turn.get_by_test_id("again").click()

    for tab in (page, second):
        turns = tab.get_by_test_id("turn")
        expect(turns).to_have_count(2)
        expect(turns.last.get_by_test_id("answer")).to_have_text("It glows.")
        expect(turns.last.get_by_test_id("versions")).to_contain_text("2 of 2")
    second.get_by_test_id("earlier").click()
    expect(page.get_by_test_id("turn")).to_have_count(3)
    expect(page.get_by_test_id("turn").nth(1).get_by_test_id("answer")).to_have_text(
        "And the lamp?"
    )


def test_branch_goes_on_in_a_new_conversation(visitor: Visitor) -> None:
    """Another thought leads away without disturbing the talk it came from."""
    page = asked(visitor)
    page.get_by_test_id("turn").nth(1).get_by_test_id("branch").click()
    expect(page.get_by_test_id("turn")).to_have_count(2)
    expect(page.get_by_test_id("conversation").first).to_contain_text("Light the stove (branch)")
    ended(say(page, "Another thought"))
    assert visitor.house.model.requests[-1].body["messages"][-2]["content"] == "And the lamp?"

    page.get_by_test_id("conversation").last.click()
    expect(page.get_by_test_id("question")).to_have_count(3)
    expect(page.get_by_test_id("question").last).to_contain_text("Thanks")


def test_pinned_conversation_is_first_also_after_newer_ones(visitor: Visitor) -> None:
    """The menu pins and unpins; the list says which are pinned."""
    page = asked(visitor)
    page.get_by_test_id("new-chat").click()
    expect(page.get_by_test_id("turn")).to_have_count(0)
    ended(say(page, "Newer"))
    rows = page.get_by_test_id("conversation")
    expect(rows.first).to_contain_text("Newer")
    menu_of(page, "Light the stove").click()
    item(page, "pin").click()
    expect(rows.first).to_contain_text("Light the stove")
    expect(rows.first).to_contain_text("Pinned")
    assert faults(page, every=True) == []
    menu_of(page, "Light the stove").click()
    item(page, "pin").click()
    expect(rows.first).to_contain_text("Newer")


def test_refused_edit_says_why_and_keeps_the_conversation(visitor: Visitor) -> None:
    """A lost network costs neither the edit nor the turns after it."""
    page = asked(visitor)
    page.context.set_offline(True)
    page.get_by_test_id("turn").nth(1).hover()
    page.get_by_test_id("edit").nth(1).click()
    page.get_by_test_id("edit-text").fill("And the candle?")
    page.get_by_test_id("edit-send").click()

    expect(page.get_by_test_id("edit-fault")).to_contain_text("cannot be reached")
    expect(page.get_by_test_id("edit-text")).to_have_value("And the candle?")
    assert faults(page, every=True) == []
    page.get_by_test_id("edit-cancel").click()
    page.get_by_test_id("again").last.click()
    expect(page.get_by_test_id("not-again")).to_contain_text("cannot be reached")
    expect(page.get_by_test_id("turn")).to_have_count(3)
    page.context.set_offline(False)
    visitor.complaints = [one for one in visitor.complaints if "ERR_INTERNET" not in one]


def test_versions_fit_a_phone_and_double_zoom(visitor: Visitor) -> None:
    """Every action of a turn is on the screen of a phone, and at 200 % of a laptop's."""
    page = asked(visitor, width=360, height=640)
    turn = page.get_by_test_id("turn").last
    turn.get_by_test_id("again").click()
    expect(page.get_by_test_id("versions")).to_contain_text("2 of 2")
    ended(page.get_by_test_id("turn").last)
    for width, height in ((360, 640), (640, 400)):
        page.set_viewport_size({"width": width, "height": height})
        for name in ("earlier", "again", "branch", "show-run", "edit"):
            button = page.get_by_test_id("turn").last.get_by_test_id(name)
            button.scroll_into_view_if_needed()
            box = button.bounding_box()
            assert box is not None
            assert 0 <= box["x"] <= box["x"] + box["width"] <= width
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert faults(page, every=True) == []
