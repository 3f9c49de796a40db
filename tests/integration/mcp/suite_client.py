"""Our side of a client scenario of the conformance suite: `client.py URL`.

The suite names the scenario in `MCP_CONFORMANCE_SCENARIO` and serves it at the URL. The connection
is that of the product; every tool that it takes is called with the smallest input that its schema
allows, or as the scenario demands.
"""

import asyncio
import json
import os
import ssl
import sys
from pathlib import Path
from typing import Any

from pipecatapp.records.secrets import Secrets
from pipecatapp.tools.mcp.servers import Configured, McpServer
from pipecatapp.tools.mcp.serving import Servers
from pipecatapp.workflow import Context, Tool, ToolFailed

SMALLEST: dict[str, Any] = {
    "string": "x", "integer": 1, "number": 1, "boolean": False, "object": {}, "array": [],
}  # fmt: skip
Json = dict[str, Any]


def smallest(schema: Json) -> Json:
    """The required inputs of a tool."""
    properties = schema.get("properties", {})
    return {
        name: SMALLEST.get(str(properties.get(name, {}).get("type")), "x")
        for name in schema.get("required", [])
    }


def inputs(scenario: str, tools: dict[str, Tool]) -> list[tuple[str, Json]]:
    """The calls that a scenario demands, by the names of our tools."""
    told = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    if calls := told.get("toolCalls"):
        return [(f"mcp/suite/{call['name']}", call["arguments"]) for call in calls]
    if scenario == "json-schema-2020-12-preservation":
        focal = tools["mcp/suite/json_schema_2020_12_tool"].input_schema()
        return [("mcp/suite/json_schema_echo", {"schema": focal})]
    return [(name, smallest(tool.input_schema())) for name, tool in tools.items()]


async def main(url: str) -> int:
    """Run the scenario; the exit code is 1 if the server cannot be reached."""
    tools: dict[str, Tool] = {}
    server = McpServer.model_validate({"url": url, "start_seconds": 30, "call_seconds": 20})
    configured = Configured(Path("mcp.yaml"), {"suite": server}, {})
    servers = Servers(configured, Secrets(Path("none"), {}), ssl.create_default_context())
    async with servers.running(lambda found, _: tools.update({one.name: one for one in found})):
        for name, given in inputs(os.environ["MCP_CONFORMANCE_SCENARIO"], tools):
            try:
                await tools[name].check(Context(), given)
            except ToolFailed as error:
                sys.stderr.write(f"{error}\n")
        [row] = servers.health()
    sys.stderr.write(f"{row.detail}\n")
    return 0 if row.healthy else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1])))
