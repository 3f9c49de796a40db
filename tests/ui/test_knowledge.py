"""The page of indexed documents: add, search, follow a result to its passage, remove."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.integration.agent.knowledge.conftest import DOCUMENTS, write
from tests.ui.conftest import Visitor, faults


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 360)])
def test_documents_are_added_searched_and_removed(
    visitor: Visitor, tmp_path: Path, theme: str, width: int
) -> None:
    """Everything that the command does, for people who do not use a terminal."""
    folder = write(tmp_path / "manuals", {**DOCUMENTS, "empty.txt": ""})
    page = visitor.enter(theme=theme, width=width)
    page.goto(f"{visitor.house.address}/#/knowledge")
    expect(page.get_by_test_id("empty")).to_contain_text("No documents yet")

    _add(page, folder)
    source = page.get_by_test_id("source")
    expect(source).to_contain_text("3 files · 6 passages · readers: guest")
    expect(page.get_by_test_id("source-state")).to_have_text("Ready")
    expect(page.get_by_test_id("source-waiting")).to_contain_text("No expert of this home")
    page.get_by_test_id("source-failures").click()
    expect(page.get_by_test_id("failures")).to_contain_text("It is empty.")
    page.get_by_test_id("dialog-close").click()

    _search(page, tmp_path)

    page.get_by_test_id("source-remove").click()
    page.get_by_test_id("dialog-confirm").click()
    expect(source).to_have_count(0)
    with visitor.house.client() as client:
        assert client.get("/api/knowledge").json()["sources"] == []


def test_question_without_a_fitting_document_says_so(visitor: Visitor, tmp_path: Path) -> None:
    """The nearest passages are offered, and are not taken for an answer."""
    with visitor.house.client() as client:
        folder = str(write(tmp_path / "manuals", DOCUMENTS))
        body = {"name": "manuals", "paths": [folder]}
        client.post("/api/knowledge", json=body).raise_for_status()
    page = visitor.enter()
    page.goto(f"{visitor.house.address}/#/knowledge?query=the+capital+of+Mongolia")

    expect(page.get_by_test_id("passages")).to_contain_text("No document fits")
    expect(page.get_by_test_id("passages-fitting").get_by_test_id("passage")).to_have_count(0)


def _add(page: Page, folder: Path) -> None:
    """Fill the form, first with a folder that does not exist."""
    page.get_by_test_id("source-add").click()
    page.get_by_test_id("source-name").fill("manuals")
    page.get_by_test_id("source-paths").fill("/no/such/folder")
    page.get_by_test_id("dialog-save").click()
    expect(page.get_by_test_id("source-fault")).to_contain_text("does not exist")
    page.get_by_test_id("source-paths").fill(str(folder))
    page.get_by_test_id("source-readers").fill("guest")
    assert faults(page, every=True) == []
    page.get_by_test_id("dialog-save").click()


def _search(page: Page, pictures: Path) -> None:
    """Search, open the first passage, and go back to the results."""
    page.get_by_test_id("knowledge-query").fill("factory reset")
    page.get_by_test_id("knowledge-query").press("Enter")
    first = page.get_by_test_id("passages-fitting").get_by_role("link").first
    expect(first).to_have_text("manuals/router.md#Factory reset")
    assert faults(page, every=True) == []
    page.screenshot(path=pictures / "search.png")
    first.click()
    whole = page.get_by_test_id("passage-whole")
    expect(whole).to_contain_text("Hold the button on the back")
    expect(whole).to_contain_text("Visitors use the network Rosebud")
    assert faults(page, every=True) == []
    page.screenshot(path=pictures / "passage.png")
    page.go_back()
    expect(first).to_be_visible()
