"""MCP clients with an issued key: the agent asks the gateway what the key permits."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, ElicitResult, InputRequiredResult, InputResponses, TextContent

from tests.integration.gateway.callers.conftest import House
from tests.integration.gateway.conftest import SERVICE_KEY, caller

HELLO = {"messages": [{"role": "user", "content": "hello"}]}


@asynccontextmanager
async def connected(
    house: House, owner: httpx2.Client, *, mode: str = "auto"
) -> AsyncIterator[Client]:
    """The protocol's client, with the key of another client."""
    headers = {"authorization": owner.headers["authorization"]}
    async with httpx2.AsyncClient(headers=headers, timeout=60, trust_env=False) as http:
        transport = streamable_http_client(f"{house.agent_url}/mcp", http_client=http)
        async with Client(transport, mode=mode, elicitation_callback=_cancel) as client:
            yield client


async def _cancel(context: object, params: object) -> ElicitResult:
    return ElicitResult(action="cancel")


def text_of(result: CallToolResult) -> str:
    [content] = result.content
    assert isinstance(content, TextContent)
    return content.text


async def test_key_sees_and_calls_what_its_scopes_and_models_permit(house: House) -> None:
    """A guest's program must not run programs, nor see what it may not call."""
    with (
        house.key("mcp-talker", scopes=("chat",)) as talker,
        house.key("mcp-worker", models=("workflow/ask-first", "auto", "small")) as worker,
    ):
        async with connected(house, talker) as client:
            talkers = {tool.name for tool in (await client.list_tools()).tools}
            refused = await client.call_tool("ask-first", HELLO)
            own = await client.call_tool("cluster_status", {})
        async with connected(house, worker) as client:
            workers = {tool.name for tool in (await client.list_tools()).tools}
            barred = await client.call_tool("delegate", HELLO)

    assert ("ask-big" in talkers, "ask-first" in talkers) == (True, False)
    assert ("note_find" in talkers, "note_save" in talkers) == (True, False)
    assert {"ask-first", "note_save", "note_find"} <= workers
    assert "delegate" not in workers
    assert text_of(refused) == "ask-first needs a key with the scope 'workflows'."
    assert text_of(own) == "cluster_status needs a key with the scope 'workflows'."
    assert text_of(barred) == "The key may not use the model 'workflow/delegate'."
    assert refused.is_error
    assert barred.is_error


async def test_run_of_a_call_belongs_to_the_key_and_counts_for_it(house: House) -> None:
    """Budgets apply, and a model that the key may not use answers nothing."""
    with house.key("mcp-child", models=("workflow/*", "small")) as child:
        async with connected(house, child) as client:
            refused = await client.call_tool("ask-big", HELLO)
            saved = await client.call_tool("note_save", {"text": "The child likes jam."})
    mine = {"workflow": "ask-big", "person": "mcp-child"}
    with caller(house.agent_url, SERVICE_KEY) as service:
        runs = service.get("/api/runs", params=mine).json()["runs"]

    assert "On behalf of the key 'mcp-child'" in text_of(refused)
    assert saved.structured_content is not None
    assert len(runs) == 1
    assert house.big.requests == []


async def test_notes_and_questions_of_a_key_are_out_of_reach_for_others(house: House) -> None:
    """Two people share an instance, not their notes, nor the answers to their questions."""
    with house.key("mcp-ann") as ann, house.key("mcp-bob") as bob:
        async with connected(house, ann) as client:
            saved = await client.call_tool("note_save", {"text": "Ann hides the key."})
            asked = await client.session.call_tool("ask-first", HELLO, allow_input_required=True)
            assert isinstance(asked, InputRequiredResult)
            state = asked.request_state
        async with connected(house, bob) as client:
            found = await client.call_tool("note_find", {"query": "hides"})
            listed = (await client.list_resources()).resources
            with pytest.raises(MCPError, match="There is no resource"):
                await client.read_resource(
                    f"hearth://notes/{(saved.structured_content or {})['id']}"
                )
            yes: InputResponses = {
                "answer": ElicitResult(action="accept", content={"answer": "yes"})
            }
            with pytest.raises(MCPError, match="Invalid or expired requestState"):
                await client.call_tool("ask-first", HELLO, input_responses=yes, request_state=state)

    assert (found.structured_content, listed) == ({"notes": []}, [])


async def test_session_of_a_key_is_of_no_use_to_another_one(house: House) -> None:
    """Its id is in a header that proxies log."""
    hello = {"protocolVersion": "2025-06-18", "capabilities": {},
             "clientInfo": {"name": "x", "version": "1"}}  # fmt: skip
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    accept = {"accept": "application/json, text/event-stream"}
    place = f"{house.agent_url}/mcp"
    with house.key("mcp-one") as one, house.key("mcp-two") as two:
        opened = one.post(place, json=begin, headers=accept)
        session = {**accept, "mcp-session-id": opened.headers["mcp-session-id"]}
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        statuses = [who.post(place, json=ping, headers=session).status_code for who in (one, two)]

    assert statuses == [200, 404]


async def test_limits_and_revocation_of_a_key_apply_to_its_next_request(house: House) -> None:
    """A key that is closed everywhere else must not stay open here."""
    place, hello = f"{house.agent_url}/mcp", {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    with house.key("mcp-slow", requests_per_minute=1) as slow, house.key("mcp-gone") as gone:
        slow.post(place, json=hello)
        fast = slow.post(place, json=hello)
        house.gateway.delete("/api/keys/mcp-gone").raise_for_status()
        revoked = gone.post(place, json=hello)

    assert (fast.status_code, fast.json()["error"]["code"]) == (429, "requests_per_minute")
    assert int(fast.headers["retry-after"]) > 0
    assert revoked.status_code == 401
    assert "resource_metadata=" in revoked.headers["www-authenticate"]
