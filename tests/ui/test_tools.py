"""The tools by hand: their list, a form made of each schema, files in, and files out."""

import shutil
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.support import order_tool
from tests.ui.conftest import Visitor


def open_tool(visitor: Visitor, name: str) -> Page:
    """The page of a tool, as a person finds it."""
    page = visitor.enter()
    page.get_by_test_id("nav-workflows").click()
    page.get_by_test_id("tab-tools").click()
    page.get_by_test_id("tool-search").fill(name)
    expect(page.get_by_test_id("tool")).to_have_count(1)
    page.get_by_test_id("tool").click()
    return page


@pytest.mark.proves("001-12")
def test_form_of_a_tool_is_made_of_its_schema(visitor: Visitor) -> None:
    """Objects and lists of objects have fields of their own, and what the tool refuses is told at
    its field: nobody writes JSON.
    """
    (visitor.house.state / "tools").mkdir()
    shutil.copy(order_tool.__file__, visitor.house.state / "tools" / "order.py")
    visitor.restart()
    page = open_tool(visitor, "shop.order")
    page.get_by_test_id("add-items").click()
    page.get_by_test_id("start").click()
    expect(page.get_by_test_id("input-items.0.name")).to_have_attribute("aria-invalid", "")
    page.get_by_test_id("input-items.0.name").fill("lamp")
    page.get_by_test_id("input-items.0.count").fill("21")
    page.get_by_test_id("add-items").click()
    page.get_by_test_id("input-items.1.name").fill("cable")
    page.get_by_test_id("input-speed").select_option("fast")
    page.get_by_test_id("input-notes").fill("ring twice")
    page.get_by_test_id("group-address").click()
    page.get_by_test_id("input-address.street").fill("Hof 1")
    page.get_by_test_id("input-wrapped").check()
    page.get_by_test_id("start").click()
    expect(page.get_by_test_id("input-items.0.count")).to_have_attribute("aria-invalid", "")
    expect(page.locator("[id='input-items.0.count-fault']")).to_contain_text("less than or equal")

    page.get_by_test_id("input-items.0.count").fill("2")
    page.get_by_test_id("start").click()
    expect(page.get_by_test_id("run-status")).to_have_text("Done")
    expect(page.locator(".run-whole")).to_contain_text(
        "2 lamp, 1 cable fast to Hof 1, Bonn (ring twice), wrapped"
    )


def test_what_was_typed_outlives_a_reload_until_the_run_has_started(visitor: Visitor) -> None:
    """A phone drops a page in the background; an entry that was removed is not there again."""
    (visitor.house.state / "tools").mkdir()
    shutil.copy(order_tool.__file__, visitor.house.state / "tools" / "order.py")
    visitor.restart()
    page = open_tool(visitor, "shop.order")
    for number, name in enumerate(("lamp", "fuse", "cable")):
        page.get_by_test_id("add-items").click()
        page.get_by_test_id(f"input-items.{number}.name").fill(name)
    page.locator("ol.entries > li").nth(1).get_by_text("Remove entry").click()
    expect(page.get_by_test_id("input-items.1.name")).to_have_value("cable")
    page.get_by_test_id("input-speed").select_option("fast")
    page.get_by_test_id("group-address").click()
    page.get_by_test_id("input-address.street").fill("Hof 1")
    page.reload()
    expect(page.get_by_test_id("input-speed")).to_have_value("fast")
    page.get_by_test_id("start").click()
    expect(page.get_by_test_id("run-status")).to_have_text("Done")
    expect(page.locator(".run-whole")).to_contain_text("1 lamp, 1 cable fast to Hof 1")
    page.go_back()
    expect(page.get_by_test_id("input-address.street")).to_have_value("")
    expect(page.get_by_test_id("input-items.0.name")).to_have_count(0)


def test_file_is_given_to_a_tool_and_its_result_is_downloaded(
    visitor: Visitor, tmp_path: Path
) -> None:
    """What a person gives is in the run's workspace, and what the run makes is on its page."""
    given = tmp_path / "notes & Ideen.txt"
    given.write_text("warm\n", encoding="utf-8")
    page = open_tool(visitor, "file.read")
    with page.expect_response("**/api/files"):
        page.get_by_test_id("files").set_input_files(given)
    page.reload()
    expect(page.get_by_test_id("file")).to_contain_text(given.name)
    page.get_by_test_id("input-path").fill(given.name)
    page.get_by_test_id("start").click()
    expect(page.get_by_test_id("run-status")).to_have_text("Done")
    expect(page.locator(".run-whole")).to_contain_text("warm")
    page.get_by_test_id("run-export").wait_for()

    page.goto(f"{visitor.house.address}/#/tools/file.write")
    page.get_by_test_id("input-path").fill("out/page #1.html")
    page.get_by_test_id("input-text").fill("<b>hi</b>")
    page.get_by_test_id("start").click()
    expect(page.get_by_test_id("run-file")).to_contain_text("out/page #1.html")
    with page.expect_download() as download:
        page.get_by_test_id("run-file").get_by_role("link").click()
    assert download.value.suggested_filename == "page #1.html"
    assert download.value.path().read_text() == "<b>hi</b>"


def test_tool_that_the_machine_cannot_run_says_what_is_missing(visitor: Visitor) -> None:
    """A person learns what to install before a run fails."""
    (visitor.house.state / "tools").mkdir()
    (visitor.house.state / "tools" / "far.py").write_text(
        "from pipecatapp.workflow import Context, Program, tool\n"
        "from tests.support.order_tool import Order\n\n"
        '@tool("far.away", effect="pure", needs=(Program("no-such-program", apt="no-such"),))\n'
        "async def away(ctx: Context) -> Order:\n"
        '    """Do something far away."""\n'
        '    return Order(text="")\n',
        encoding="utf-8",
    )
    visitor.restart()
    page = open_tool(visitor, "far.away")
    expect(page.get_by_test_id("problem")).to_contain_text("apt install no-such")
    page.get_by_test_id("start").click()
    expect(page.get_by_test_id("run-status")).to_have_text("Failed")
    expect(page.locator(".run-whole")).to_contain_text("Install it with `apt install no-such`")
