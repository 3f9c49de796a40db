"""MCP servers at a URL: both eras of the protocol, secrets in headers, and what goes wrong."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from pipecatapp.records.secrets import Secrets
from pipecatapp.workflow import ToolFailed
from tests.integration.local.conftest import wait_for
from tests.integration.mcp.conftest import KITCHEN, TOKEN, Json, Run, until
from tests.ports import free_port
from tests.shown import Shown

BEARER = {"Authorization": "Bearer ${HOME_TOKEN}"}
Serve = Callable[..., Any]


@contextmanager
def serving(port: int, orders: Path, *more: str) -> Iterator[subprocess.Popen[bytes]]:
    """The kitchen over HTTP, as a process."""
    env = {**os.environ, "KITCHEN_TOKEN": TOKEN, "ORDERS": str(orders)}
    process = subprocess.Popen([sys.executable, str(KITCHEN), "http", str(port), *more], env=env)

    def answers() -> bool:
        try:
            httpx2.get(f"http://127.0.0.1:{port}/", trust_env=False)
        except httpx2.TransportError:
            return False
        return True

    try:
        wait_for(answers, "the kitchen answers", 120)
        yield process
    finally:
        process.kill()  # One that is asked to stop waits for its clients' open streams.
        process.wait(60)


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, int]]:
    """The ports of a kitchen of each era."""
    folder = tmp_path_factory.mktemp("kitchens")
    found = {"present": free_port(), "earlier": free_port()}
    with (
        serving(found["present"], folder / "present"),
        serving(found["earlier"], folder / "earlier", "earlier"),
    ):
        yield found


def at(port: int, path: str = "/mcp", **more: Any) -> Json:
    """The entry of a kitchen over HTTP."""
    return {"type": "http", "url": f"http://127.0.0.1:{port}{path}", "headers": BEARER, **more}


@pytest.mark.parametrize("era", ["present", "earlier"])
async def test_tools_and_resources_of_a_server_at_a_url_work(
    run: Run, ports: dict[str, int], era: str
) -> None:
    """Home Assistant and most other services are reached by a URL and a token."""
    async with run(home=at(ports[era])) as there:
        await until(lambda: there.tools)
        up = there.servers.connections["home"].up
        assert up is not None
        version = up.client.protocol_version
        heat = await there.call("mcp/home/degrees", oven="big")
        ordered = await there.call("mcp/home/order", what="milk")
        menu = await there.call("mcp/home/resources.read", uri="kitchen://menu")
        with pytest.raises(ToolFailed, match="mcp/home/burn failed"):
            await there.call("mcp/home/burn")
        rows = [(row.name, row.url, row.detail) for row in there.servers.health()]
        tools = there.tools

    assert (version >= "2026-07-28") is (era == "present")
    assert heat["data"]["result"].startswith("big: 180")
    assert ordered["data"]["result"] == "ordered"
    assert menu["text"].startswith("# Menu")
    assert rows == [("mcp/home", f"http://127.0.0.1:{ports[era]}/mcp", "")]
    assert [tools[f"mcp/home/{one}"].effect for one in ("degrees", "order")] == ["net", "external"]


async def test_secret_of_a_header_is_in_no_answer_error_or_log(
    run: Run, ports: dict[str, int], capfd: pytest.CaptureFixture[str]
) -> None:
    """A run's record is read by many; a server that repeats the token must not put it there."""
    async with run(home=at(ports["present"])) as there:
        await until(lambda: there.tools)
        betrayed = await there.call("mcp/home/betray")

    assert betrayed["data"] == {"token": "it is ***!"}
    said = capfd.readouterr()
    assert TOKEN not in f"{betrayed}{there.health()}{said.out}{said.err}"


async def test_servers_that_are_not_reached_are_reported_with_the_remedy(
    run: Run, ports: dict[str, int]
) -> None:
    """The owner of the file sees which line of it is wrong."""
    port = ports["present"]
    entries = {
        "denied": at(port, headers={"Authorization": "Bearer ${file:/etc/hostname}"}),
        "unset": at(port, headers={"Authorization": "Bearer ${kept:nothing}"}),
        "nowhere": at(free_port()),
        "elsewhere": at(port, "/other"),
        "large": at(port, "/large"),
        "bad": at(port, headers={"Authorization": "Bearer ${what is it}"}),
        "user": {"url": "http://ada:secret@127.0.0.1/mcp"},
        "home": at(port),
    }
    async with run(**entries) as there:
        await until(lambda: there.tools)
        await until(lambda: "starting" not in str(there.health()))
        health = {
            name: text.partition(".yaml: ")[2] or text for name, text in there.health().items()
        }

    assert health == {
        "mcp/denied": "it refused the key (HTTP 401): check the `headers` of its entry",
        "mcp/unset": (
            "a secret of its entry is missing: nothing is at kept:nothing. Run `hearth secrets set "
            "nothing`"
        ),
        "mcp/nowhere": ("no connection to its url is possible: All connection attempts failed"),
        "mcp/elsewhere": "its url is not known there (HTTP 404): check the `url` of its entry",
        "mcp/large": (
            "it does not speak MCP: Failed to parse JSON response: the response has more than "
            "4194304 bytes"
        ),
        "mcp/bad": (
            "Authorization: ${what is it} is not a valid reference: use ${kept:name}, ${env:NAME} "
            "or ${file:/path}"
        ),
        "mcp/user": "url: use http:// or https:// with a host, without user and password",
        "mcp/home": "",
    }


def test_page_about_urls_works_as_written(
    run: Run, ports: dict[str, int], tmp_path: Path, shown: Shown
) -> None:
    """The entry of the page is the one that owners of Home Assistant paste."""
    Secrets(tmp_path / "secrets", {}).keep("home-assistant", TOKEN)
    [entry] = json.loads(shown.take("docs/howto/use-mcp-servers.md"))["mcpServers"].values()
    entry["url"] = f"http://127.0.0.1:{ports['earlier']}/mcp"

    async def degrees() -> str:
        async with run(home=entry) as there:
            await until(lambda: there.tools)
            heat = await there.call("mcp/home/degrees", oven="big")
        return str(heat["data"]["result"])

    assert asyncio.run(degrees()).startswith("big: 180")


@pytest.mark.parametrize("era", ["present", "earlier"])
async def test_server_that_was_restarted_is_reached_again_at_the_next_call(
    run: Run, tmp_path: Path, era: str
) -> None:
    """Home Assistant restarts after an update; nobody wants to restart Hearth for that."""
    port, orders = free_port(), tmp_path / "orders"
    async with run(home=at(port)) as there:
        with serving(port, orders, era) as first:
            await until(lambda: there.health()["mcp/home"] == "")
            first.send_signal(signal.SIGKILL)
            first.wait(60)
            with pytest.raises(ToolFailed, match="The MCP server home "):
                await there.call("mcp/home/order", what="bread")
        with serving(port, orders, era):
            answer = await there.call("mcp/home/order", what="milk")
            assert there.health() == {"mcp/home": ""}

    assert answer["data"]["result"] == "ordered"
    assert orders.read_text(encoding="utf-8") == "milk\n"


async def test_server_of_an_earlier_era_that_lost_the_session_is_asked_again(
    run: Run, tmp_path: Path
) -> None:
    """It was restarted between two calls, so the second call must not fail."""
    port, orders = free_port(), tmp_path / "orders"
    async with run(home=at(port)) as there:
        with serving(port, orders, "earlier"):
            await until(lambda: there.health()["mcp/home"] == "")
        with serving(port, orders, "earlier"):
            answer = await there.call("mcp/home/order", what="milk")

    assert answer["data"]["result"] == "ordered"
    assert orders.read_text(encoding="utf-8") == "milk\n"
