"""The protocol's own memory server, as a process, used by an instance."""

import json
import os
from pathlib import Path

import pytest

from tests.clients import environments
from tests.integration.agent.conftest import House, empty_house, quiet_logs
from tests.integration.local.conftest import wait_for

__all__ = ["empty_house", "quiet_logs"]
EXTENDED_INPUTS = ["tests/clients/mcp/*", "pipecatapp/tools/mcp/*"]
pytestmark = pytest.mark.extended
REMEMBER = """
kind: workflow
id: remember
about: Store a fact in the memory server.
inputs: {who: text, fact: text}
steps:
  - id: made
    use: mcp/memory/create_entities
    with:
      entities:
        - {name: "{{ inputs.who }}", entityType: person, observations: ["{{ inputs.fact }}"]}
  - {id: found, use: mcp/memory/search_nodes, with: {query: "{{ inputs.who }}"}}
outputs: {found: "{{ found.data }}"}
"""


def test_memory_of_a_server_outlives_the_instance(empty_house: House, tmp_path: Path) -> None:
    """What was said yesterday is known today, to every program that uses the same server."""
    modules = environments.node_modules(environments.SOURCE / "mcp") / "node_modules"
    program = modules / "@modelcontextprotocol" / "server-memory" / "dist" / "index.js"
    memory = tmp_path / "memory.jsonl"
    entry = {
        "command": "node",
        "args": [str(program)],
        "env": {"MEMORY_FILE_PATH": str(memory), "PATH": os.environ["PATH"]},
        "start_seconds": 120,
    }
    file = empty_house.state / "mcp.yaml"
    file.write_text(json.dumps({"mcpServers": {"memory": entry}}), encoding="utf-8")
    document = {"document": REMEMBER, "inputs": {"who": "Ann", "fact": "likes tea"}}
    empty_house.model.when("What does Ann").call_tool("mcp_memory_search_nodes", {"query": "Ann"})
    empty_house.model.when("likes tea").say("Ann likes tea.")
    with empty_house.running(), empty_house.client() as api:
        wait_for(lambda: "mcp/memory/read_graph" in api.get("/api/tools").text, "memory", 120)
        run = api.post("/api/runs", json=document).json()["run"]
        wait_for(lambda: api.get(f"/api/runs/{run}").json()["ended"], "it ends", 60)
        stored = api.get(f"/api/runs/{run}").json()
    with empty_house.running(), empty_house.client() as api:
        wait_for(lambda: "mcp/memory/read_graph" in api.get("/api/tools").text, "memory", 120)
        answer = empty_house.ask("What does Ann like?").json()

    assert stored["status"] == "done", stored
    [ann] = stored["outputs"]["found"]["entities"]
    assert (ann["name"], ann["observations"]) == ("Ann", ["likes tea"])
    assert answer["choices"][0]["message"]["content"] == "Ann likes tea."
    assert "likes tea" in memory.read_text(encoding="utf-8")
