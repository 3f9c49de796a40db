"""One workflow, one engine: whoever starts it, by whatever way, the same run comes of it."""

import asyncio
import json
import time
from typing import Any

import httpx2
import pytest

from hearth.service.health import Health
from moe_gateway.app import build_app
from moe_gateway.http.server import CorkedProtocol
from moe_gateway.settings import Settings
from tests.conftest import served
from tests.integration.agent.conftest import House
from tests.integration.agent.documents.test_mcp import connected
from tests.integration.agent.test_cli import announce, command, without_volatile

TEXT = "Snow fell all night."
MESSAGES = [{"role": "user", "content": TEXT}]
MODEL = "workflow/summarize"


def chat_run(house: House, client: httpx2.Client) -> dict[str, Any]:
    """The run that one chat completion becomes, asked at that address."""
    body = {"model": MODEL, "messages": MESSAGES}
    answer = client.post("/v1/chat/completions", json=body)
    assert answer.status_code == 200, answer.text
    with house.client() as api:
        return normalised(api.get("/api/runs?limit=1").json()["runs"][0]["id"], api)


def normalised(run: str, api: httpx2.Client) -> dict[str, Any]:
    """A run without what differs from one to the next: ids, times, who started it."""
    view: dict[str, Any] = without_volatile(api.get(f"/api/runs/{run}").json())
    view.pop("caller", None)
    events = [
        json.loads(line.removeprefix("data: "))
        for line in api.get(f"/api/runs/{run}/events").text.splitlines()
        if line.startswith("data: ") and '"seq"' in line
    ]
    return {"view": view, "events": [(event["type"], event["path"]) for event in events]}


def by_gateway(house: House) -> dict[str, Any]:
    """Through the real gateway, which finds the workflow among the agent's models."""
    agent = {
        "url": house.address,
        "key_file": house.state / "service_key",
        "lists_models": True,
    }
    settings = Settings.model_validate(
        {
            "key_files": [house.state / "key", house.state / "service_key"],
            "instances": [agent],
            "check_interval": 0.05,
            "models_interval": 0.05,
        }
    )
    app = build_app(settings, Health("moe-gateway", version="test"))
    with served(app, CorkedProtocol) as address:
        headers = {"authorization": f"Bearer {house.key}"}
        with httpx2.Client(
            base_url=address, headers=headers, timeout=60, trust_env=False
        ) as client:
            deadline = time.monotonic() + 60
            while MODEL not in client.get("/v1/models").text and time.monotonic() < deadline:
                time.sleep(0.05)
            return chat_run(house, client)


async def asked_over_mcp(house: House, inputs: dict[str, Any]) -> str:
    """The run that one call of a tool becomes."""
    async with connected(house) as client:
        result = await client.call_tool("summarize", inputs)
    assert result.meta is not None
    return str(result.meta["hearth/run"])


def test_shell_api_mcp_agent_and_gateway_start_the_same_run(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was tried in the shell is what a chat client gets, step by step."""
    announce(house)
    hearth = command(house, monkeypatch)

    given = ("--input", f"messages={json.dumps(MESSAGES)}", "--input", f"text={TEXT}")
    shell = hearth("run", "summarize", *given, "--json")
    with house.client() as api:
        by_shell = normalised(json.loads(shell.stdout)["run"], api)
        inputs = {"messages": MESSAGES, "text": TEXT}
        by_mcp = normalised(asyncio.run(asked_over_mcp(house, inputs)), api)
        body = {"workflow": "summarize", "inputs": inputs}
        started = api.post("/api/runs", json=body).json()["run"]
        api.get(f"/api/runs/{started}/events").read()
        by_api = normalised(started, api)
        by_agent = chat_run(house, api)
    gateway = by_gateway(house)

    assert by_shell["view"]["status"] == "done"
    assert by_shell == by_api == by_mcp == by_agent == gateway
