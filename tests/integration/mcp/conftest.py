"""MCP servers as real processes, set up as a person does: by a file."""

import asyncio
import json
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pipecatapp.records.secrets import Secrets
from pipecatapp.tools.mcp.servers import read_servers
from pipecatapp.tools.mcp.serving import Servers
from pipecatapp.workflow import Context, Tool

HERE = Path(__file__).parent
KITCHEN = HERE / "kitchen.py"
TOKEN = "token-of-the-kitchen"
Json = dict[str, Any]


def kitchen(orders: Path, **more: Any) -> Json:
    """The entry of the well-behaved server, which writes orders into that file."""
    env = {"ORDERS": str(orders)}
    # A busy machine takes its time to import the SDK.
    return {
        "command": sys.executable,
        "args": [str(KITCHEN)],
        "env": env,
        "start_seconds": 120,
        **more,
    }


def wild(kind: str, **more: Any) -> Json:
    """The entry of the server that misbehaves."""
    return {"command": sys.executable, "args": ["-S", str(HERE / "wild.py"), kind], **more}


@dataclass
class Running:
    """The servers of one file, and the tools that they have told of so far."""

    servers: Servers
    tools: dict[str, Tool] = field(default_factory=dict)

    def learn(self, tools: Iterable[Tool], without: Iterable[str] = ()) -> None:
        for name in without:
            del self.tools[name]
        self.tools.update({tool.name: tool for tool in tools})

    async def call(self, tool: str, **given: Any) -> Json:
        return await self.tools[tool].check(Context(), given)

    async def say(self, tool: str, **given: Any) -> str:
        """The text that a call gives."""
        return str((await self.call(tool, **given))["text"])

    def health(self) -> dict[str, str]:
        """What is wrong with each server; nothing where it runs."""
        return {row.name: row.detail for row in self.servers.health()}

    def pid(self, server: str) -> int:
        """The process that a server is now; 0 while there is none."""
        up = self.servers.connections[server].up
        return up.life.pid if up else 0


async def until(condition: Callable[[], object]) -> None:
    """Wait until it is true."""
    async with asyncio.timeout(120):
        while not condition():  # noqa: ASYNC110 (nothing tells of it)
            await asyncio.sleep(0.02)


Run = Callable[..., AbstractAsyncContextManager[Running]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """`async with run(name=entry) as servers`: those of a file with these entries."""

    @asynccontextmanager
    async def running(**entries: Json) -> AsyncIterator[Running]:
        file = tmp_path / "mcp.yaml"
        file.write_text(json.dumps({"mcpServers": entries}), encoding="utf-8")
        secrets = Secrets(tmp_path / "secrets", {"HOME_TOKEN": TOKEN})
        there = Running(Servers(read_servers(file), secrets, ssl.create_default_context()))
        async with there.servers.running(there.learn):
            yield there

    return running
