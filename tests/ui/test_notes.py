"""The notes of the agent: what it remembers is shown, with its source, and can be deleted."""

from playwright.sync_api import expect

from tests.ui.conftest import Visitor, ended, faults, say


def test_note_of_a_model_is_shown_with_its_source_and_deleted(visitor: Visitor) -> None:
    """A page can tell a model to remember something; a person has to see that and remove it."""
    model = visitor.house.model
    model.when("remember").call_tool("note_save", {"text": "The cat is fed at six."})
    model.when("fed at six").say("I have noted it.")
    page = visitor.enter()
    ended(say(page, "please remember the cat"))

    page.get_by_test_id("notes-link").click()
    note = page.get_by_test_id("note")
    expect(note).to_contain_text("The cat is fed at six.")
    expect(note).to_contain_text("saved by a model in this run")
    assert faults(page) == []
    page.get_by_test_id("notes-filter").fill("dog")
    expect(note).to_have_count(0)
    page.get_by_test_id("notes-filter").fill("cat")
    expect(note).to_have_count(1)
    page.get_by_test_id("delete-note").click()

    expect(note).to_have_count(0)
    with visitor.house.client() as client:
        assert client.get("/api/notes").json()["notes"] == []
