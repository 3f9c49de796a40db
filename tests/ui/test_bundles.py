"""Bundles on the page: a workflow leaves one home and arrives in another."""

from pathlib import Path

from playwright.sync_api import expect

from tests.integration.agent.library.test_bundles import BASE, LOUD, PROJECT
from tests.integration.agent.library.test_schedules import kept
from tests.ui.conftest import Visitor


def test_workflow_is_exported_and_imported_on_the_page(visitor: Visitor, tmp_path: Path) -> None:
    """A person sees who signed it and what would change before anything is stored."""
    state = visitor.house.state
    kept(visitor.house, BASE)
    (state / "workflows" / "greet-loudly.yaml").write_text(LOUD, encoding="utf-8")
    (state / "projects").mkdir()
    (state / "projects" / "kitchen.yaml").write_text(PROJECT, encoding="utf-8")
    visitor.restart()
    page = visitor.enter()
    page.goto(f"{visitor.house.address}/#/workflows/greet-loudly")
    with page.expect_download() as download:
        page.get_by_test_id("bundle-export").click()
    file = tmp_path / download.value.suggested_filename
    download.value.save_as(file)
    assert file.name == "greet-loudly.hearth"

    (state / "workflows" / "greet-loudly.yaml").unlink()
    (state / "projects" / "kitchen.yaml").unlink()
    (state / "bundle_key").unlink()  # as in another home, which has not made it
    kept(visitor.house, BASE.replace("Good day", "Hello"))
    visitor.restart()
    page = visitor.enter()
    page.get_by_test_id("nav-workflows").click()
    page.get_by_test_id("bundle-file").set_input_files(file)
    expect(page.get_by_test_id("bundle-document")).to_have_count(3)
    expect(page.get_by_test_id("bundle-fingerprint")).to_contain_text("-")
    page.get_by_test_id("bundle-replace").check()
    page.get_by_test_id("dialog-store").click()
    expect(page.get_by_test_id("bundle-result")).to_contain_text("workflow/greet-loudly")
    expect(page.get_by_test_id("workflow").filter(has_text="greet-loudly")).to_have_count(1)
    assert "Good day" in (state / "workflows" / "greet.yaml").read_text(encoding="utf-8")


def test_file_that_is_not_a_bundle_is_refused_in_a_sentence(
    visitor: Visitor, tmp_path: Path
) -> None:
    """A person may choose any file; the page says what is wrong and goes on."""
    page = visitor.enter()
    page.get_by_test_id("nav-workflows").click()
    (tmp_path / "photo.hearth").write_bytes(b"no archive")
    page.get_by_test_id("bundle-file").set_input_files(tmp_path / "photo.hearth")
    expect(page.get_by_test_id("problem")).to_contain_text("not a bundle of Hearth")
