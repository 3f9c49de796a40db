"""What a model wants to do to the world is a form in the chat, until a person has answered it."""

import json
from pathlib import Path

from playwright.sync_api import expect

from tests.integration.local.conftest import wait_for
from tests.integration.mcp.conftest import kitchen
from tests.ui.conftest import Visitor, ended, faults, say


def test_person_approves_and_declines_calls_in_the_chat(visitor: Visitor, tmp_path: Path) -> None:
    """A page that the model summarises may tell it to order caviar; a person decides."""
    orders = tmp_path / "orders"
    entries = {"mcpServers": {"kitchen": kitchen(orders, approve={"order": "always"})}}
    (visitor.house.state / "mcp.yaml").write_text(json.dumps(entries))
    model = visitor.house.model
    for text in ("Summarise", "Once more"):
        model.when(text).call_tool("mcp_kitchen_order", {"what": f"{text} caviar"})
    model.when("ordered").say("A page about fish.")
    model.when("did not approve").say("I have ordered nothing.")
    visitor.restart()
    with visitor.house.client() as client:
        wait_for(lambda: "mcp/kitchen/order" in client.get("/api/tools").text, "it is up", 240)
    page = visitor.enter()

    first = say(page, "Summarise the page")
    form = first.get_by_test_id("question-form")
    expect(form).to_contain_text("A model wants to call mcp/kitchen/order")
    expect(form).to_contain_text("Summarise caviar")
    assert not orders.exists()
    assert faults(page) == []
    form.get_by_role("button", name="yes").click()
    ended(first)
    second = say(page, "Once more")
    second.get_by_test_id("question-form").get_by_role("button", name="no").click()
    ended(second)

    expect(second).to_contain_text("I have ordered nothing.")
    assert orders.read_text() == "Summarise caviar\n"
