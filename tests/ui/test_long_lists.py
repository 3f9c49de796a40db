"""Lists with more rows than a page shows: each says how many there are, and leads to the rest."""

import sqlite3
from contextlib import closing

import pytest
from playwright.sync_api import expect

from pipecatapp.workflow.ledger.clock import Names
from tests.ui.conftest import Visitor, faults
from tests.ui.test_people import gateway, people

__all__ = ["gateway"]

MANY = 620
DAY = "2026-01-01T00:00:00.000Z"


@pytest.fixture(autouse=True)
def many(visitor: Visitor) -> None:
    """As many conversations and notes, as years of use leave them."""
    names = Names()
    ids = [f"c-{number:04}" for number in range(MANY)]
    with closing(sqlite3.connect(visitor.house.state / "ledger.db")) as db, db:
        talk = "INSERT INTO conversation (id, title, created, updated) VALUES (?, ?, ?, ?)"
        db.executemany(talk, [(id, f"Talk {id}", DAY, f"{DAY[:-1]}{id}Z") for id in ids])
        note = "INSERT INTO note (id, at, text, tags) VALUES (?, ?, ?, '[]')"
        db.executemany(note, [(names.new(), DAY, f"Note {id}") for id in ids])
        db.execute(
            "INSERT INTO doc_fts (kind, ref, body, tags) SELECT 'note', id, text, '' FROM note"
        )


def test_list_of_conversations_shows_more_and_leads_to_the_search(visitor: Visitor) -> None:
    """The oldest conversation is not lost: the end of the list says how to reach it."""
    page = visitor.enter()
    rows, rest = page.get_by_test_id("conversation"), page.get_by_test_id("conversations-rest")
    expect(rows).to_have_count(100)
    expect(rest).to_contain_text(f"100 of {MANY} conversations.")
    assert faults(page) == []

    page.get_by_test_id("conversations-more").focus()
    page.keyboard.press("Enter")
    expect(rows).to_have_count(500)
    expect(rows.nth(100)).to_be_focused()
    expect(rest).to_contain_text(f"500 of {MANY} conversations. Search to find older ones.")

    page.get_by_test_id("conversation-search").fill("0000")
    expect(rows).to_have_count(1)
    expect(rest).to_have_count(0)


def test_notes_say_how_many_are_not_shown(visitor: Visitor) -> None:
    """The search finds those that are not in the list."""
    page = visitor.enter()
    page.get_by_test_id("notes-link").click()
    rest = page.get_by_test_id("notes-rest")

    expect(page.get_by_test_id("note")).to_have_count(500)
    expect(rest).to_have_text(f"500 of {MANY} notes are shown. Search to find the others.")
    page.get_by_test_id("notes-filter").fill("0000")
    expect(page.get_by_test_id("note")).to_have_count(1)
    expect(rest).to_be_empty()


@pytest.mark.usefixtures("gateway")
def test_conversations_of_a_key_say_how_many_are_not_shown(visitor: Visitor) -> None:
    """The list in the dialog is the newest part."""
    page = people(visitor)
    page.get_by_test_id("key-conversations").click()
    dialog = page.locator("dialog[open]")

    expect(dialog.locator("li")).to_have_count(500)
    expect(dialog).to_contain_text(f"The newest 500 of {MANY} are shown.")
