"""Triggers on the page: made in a form, seen at work, paused and removed."""

from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import expect

from pipecatapp.application.triggers import folders
from tests.ui.conftest import Visitor


def test_webhook_is_made_on_the_page_and_starts_a_run(visitor: Visitor) -> None:
    """The secret is there to copy once; what was typed outlives a refusal and a reload."""
    page = visitor.enter()
    page.get_by_test_id("nav-workflows").click()
    page.get_by_test_id("tab-triggers").click()
    page.get_by_test_id("trigger-add").click()
    page.get_by_test_id("trigger-id").fill("Door bell")
    page.get_by_test_id("trigger-signature").select_option("bearer")
    page.get_by_test_id("trigger-workflow").select_option("report")
    page.get_by_test_id("trigger-input-question").fill("{{ body.question }}")
    page.get_by_test_id("dialog-save").click()
    expect(page.get_by_test_id("trigger-fault")).to_contain_text("not a valid name")
    page.reload()
    page.get_by_test_id("trigger-add").click()
    expect(page.get_by_test_id("trigger-input-question")).to_have_value("{{ body.question }}")
    page.get_by_test_id("trigger-id").fill("door-bell")
    page.get_by_test_id("dialog-save").click()
    secret = page.get_by_test_id("hook-secret").locator("pre").inner_text()
    address = page.get_by_test_id("hook-address").locator("pre").inner_text()
    page.get_by_test_id("dialog-close").click()
    expect(page.get_by_test_id("trigger")).to_contain_text("Has not started a run yet")

    answer = httpx2.post(
        address,
        json={"question": "stoves"},
        headers={"authorization": f"Bearer {secret}"},
        trust_env=False,
    )
    assert answer.status_code == 202, answer.text
    expect(page.get_by_test_id("trigger")).to_contain_text("Done")
    page.get_by_test_id("trigger-menu").click()
    page.get_by_role("menuitem", name="Pause").click()
    expect(page.get_by_test_id("trigger")).to_contain_text("Paused")
    page.get_by_test_id("trigger-menu").click()
    page.get_by_role("menuitem", name="Remove").click()
    page.get_by_test_id("dialog-confirm").click()
    expect(page.get_by_test_id("trigger")).to_have_count(0)


def test_folder_is_watched_from_the_page(
    visitor: Visitor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that does not exist is refused at once; a file that no run can take says why."""
    monkeypatch.setattr(folders, "PERIOD", 0.1)
    page = visitor.enter()
    page.goto(f"{visitor.house.address}/#/triggers")
    page.get_by_test_id("trigger-add").click()
    page.get_by_test_id("trigger-id").fill("scans")
    page.get_by_test_id("trigger-kind").select_option("folder")
    page.get_by_test_id("trigger-path").fill(str(tmp_path / "scans"))
    page.get_by_test_id("trigger-existing").check()
    page.get_by_test_id("trigger-workflow").select_option("report")
    page.get_by_test_id("trigger-input-question").fill("{{ file.name }}")
    page.get_by_test_id("dialog-save").click()
    expect(page.get_by_test_id("trigger-fault")).to_contain_text("is not a folder")
    (tmp_path / "scans").mkdir()
    (tmp_path / "scans" / "bill.txt").write_text("12.50", encoding="utf-8")
    page.get_by_test_id("dialog-save").click()
    expect(page.get_by_test_id("trigger")).to_contain_text("Done")
