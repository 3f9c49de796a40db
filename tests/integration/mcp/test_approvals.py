"""A tool of an MCP server that changes something waits for a person, in the chat."""

import json
from pathlib import Path

import httpx2
import pytest

from pipecatapp.tools.mcp.offered import approval_of
from tests.integration.agent.conftest import House, empty_house, quiet_logs
from tests.integration.local.conftest import wait_for
from tests.integration.mcp.conftest import kitchen

__all__ = ["empty_house", "quiet_logs"]
CHAT = "/v1/chat/completions"


def said(client: httpx2.Client, text: str, conversation: str) -> httpx2.Response:
    body = {"model": "agent", "messages": [{"role": "user", "content": text}]}
    return client.post(CHAT, json=body | {"conversation": conversation}).raise_for_status()


def opened(house: House, orders: Path, **more: object) -> None:
    """Set up the kitchen, whose orders are lines of that file."""
    entry = kitchen(orders, **more)
    (house.state / "mcp.yaml").write_text(json.dumps({"mcpServers": {"kitchen": entry}}))


def up(house: House, client: httpx2.Client) -> None:
    def there() -> bool:
        tools = client.get("/api/tools").json()["tools"]
        return any(tool["name"] == "mcp/kitchen/order" for tool in tools)

    wait_for(there, "the kitchen is up", 240)


def test_page_that_a_model_reads_orders_nothing_by_itself(
    empty_house: House, tmp_path: Path
) -> None:
    """The model obeys what it reads; the order waits in the chat until a person says yes, and is
    asked about again in another conversation."""
    orders = tmp_path / "orders"
    opened(empty_house, orders)
    model = empty_house.model
    for text in ("Summarise", "Once more", "Elsewhere"):
        model.when(text).call_tool("mcp_kitchen_order", {"what": f"{text} caviar"})
    model.when("ordered").say("A page about fish.")
    with empty_house.running(), empty_house.client() as client:
        up(empty_house, client)
        first = said(client, "Summarise the page", "c-1")
        run = first.headers["x-hearth-run"]
        waiting = client.get(f"/api/runs/{run}").json()["status"]
        before = orders.exists()
        answer = {"path": "reply/turn[1]/approve[0]", "value": "yes"}
        client.post(f"/api/runs/{run}/answer", json=answer).raise_for_status()
        wait_for(lambda: client.get(f"/api/runs/{run}").json()["status"] == "done", "it ends", 60)
        second = said(client, "Once more", "c-1")
        third = said(client, "Elsewhere", "c-2")

    question = first.json()["choices"][0]["message"]["content"]
    assert "A model wants to call mcp/kitchen/order. May it?" in question
    assert (waiting, before) == ("waiting", False)
    assert second.json()["choices"][0]["message"]["content"] == "A page about fish."
    assert "May it?" in third.json()["choices"][0]["message"]["content"]
    assert orders.read_text() == "Summarise caviar\nOnce more caviar\n"


def test_owner_of_the_instance_sets_the_approval_of_a_servers_tools(
    empty_house: House, tmp_path: Path
) -> None:
    """Somebody who trusts a server says so in its entry, tool by tool; reading is never asked."""
    orders = tmp_path / "orders"
    opened(empty_house, orders, approve={"ord*": "never", "deg*": "always"})
    empty_house.model.when("Order").call_tool("mcp_kitchen_order", {"what": "milk"})
    empty_house.model.when("How hot").call_tool("mcp_kitchen_degrees", {"oven": "big"})
    empty_house.model.when("ordered").say("Done.")
    with empty_house.running(), empty_house.client() as client:
        up(empty_house, client)
        done = said(client, "Order milk", "c-1")
        asked = said(client, "How hot is it?", "c-1")

    assert done.json()["choices"][0]["message"]["content"] == "Done."
    assert orders.read_text() == "milk\n"
    assert "mcp/kitchen/degrees. May it?" in asked.json()["choices"][0]["message"]["content"]


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("order", {"what": "milk"}, "first"),
        ("send_message", {"to": "Ann", "text": "clock"}, "first"),
        ("unlock", {}, "always"),
        ("openGarage", {}, "always"),
        ("HassTurnOn", {"name": "Front Door"}, "always"),
        ("HassTurnOn", {"name": "lamp", "domain": ["light"]}, "first"),
        ("call_service", {"domain": "alarm_control_panel"}, "always"),
        ("createPayment", {"amount": 3}, "always"),
    ],
)
def test_locks_alarms_doors_and_payments_are_approved_each_time(
    name: str, given: dict[str, object], expected: str
) -> None:
    """Home automation names the lock in the input, not in the name of the tool."""
    assert approval_of(name, given) == expected
