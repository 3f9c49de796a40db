"""The sign-in: who has the key comes in and stays in."""

from urllib.parse import urlsplit

from playwright.sync_api import Page, expect

from tests.ui.conftest import Visitor, sign_in


def test_wrong_key_is_refused_with_a_sentence(visitor: Visitor) -> None:
    """Somebody who mistypes a long key must learn that it is the key that is wrong."""
    page = visitor.open()

    sign_in(page, "sk-hearth-not-this-one")

    expect(page.get_by_test_id("login-error")).to_contain_text("not the key of this Hearth")
    expect(page.get_by_test_id("key")).to_be_focused()
    expect(page.get_by_test_id("nav-runs")).to_have_count(0)


def test_right_key_opens_the_page_and_is_remembered_by_a_cookie(visitor: Visitor) -> None:
    """One signs in once a month, not once a visit; a script on the page cannot read the session."""
    page = visitor.enter()

    page.reload()

    expect(page.get_by_test_id("composer")).to_be_visible()
    [cookie] = page.context.cookies()
    assert cookie["name"] == f"hearth_session_{urlsplit(page.url).port}"
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Strict"
    assert visitor.house.key not in str(page.evaluate("({...localStorage, ...sessionStorage})"))


def test_lost_session_leads_to_the_sign_in_and_back_to_the_same_page(visitor: Visitor) -> None:
    """A session that ends must not cost the place where one was."""
    page = visitor.enter()
    page.get_by_test_id("nav-status").click()
    page.get_by_test_id("services").wait_for()

    page.context.clear_cookies()
    page.get_by_test_id("nav-workflows").click()
    sign_in(page, visitor.house.key)

    expect(page.get_by_test_id("workflows")).to_be_visible()


def test_signing_out_closes_the_session_for_the_next_visitor(visitor: Visitor) -> None:
    """On a shared computer, signing out must mean out."""
    page = visitor.enter()

    page.get_by_test_id("sign-out").click()

    expect(page.get_by_test_id("key")).to_be_visible()
    assert page.context.cookies() == []
    page.reload()
    expect(page.get_by_test_id("key")).to_be_visible()


def chosen(page: Page) -> str:
    return str(page.evaluate("getComputedStyle(document.documentElement).colorScheme"))


def test_theme_follows_the_system_until_one_chooses_and_is_remembered(visitor: Visitor) -> None:
    """Light and dark are a matter of the reader's eyes, so the reader decides."""
    page = visitor.enter(theme="dark")
    assert chosen(page) == "light dark"

    page.get_by_test_id("theme").click()

    assert chosen(page) == "light"
    page.reload()
    page.get_by_test_id("composer").wait_for()
    assert chosen(page) == "light"
