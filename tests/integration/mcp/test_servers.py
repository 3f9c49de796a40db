"""Tools of MCP servers over stdio: offered as they are declared, bounded, and started again."""

import asyncio
import json
import os
import signal
import ssl
from pathlib import Path

import psutil
import pytest

from pipecatapp.records.secrets import Secrets
from pipecatapp.tools.mcp.connection import Connection, Offer
from pipecatapp.tools.mcp.servers import McpServer, read_servers
from pipecatapp.workflow import ToolFailed
from tests.integration.mcp.conftest import Json, Run, Running, kitchen, until, wild


async def test_tools_of_a_server_are_called_by_their_schema(run: Run, tmp_path: Path) -> None:
    """A person pastes what the server's page says, and models and workflows have its tools."""
    orders = tmp_path / "orders"
    async with run(kitchen=kitchen(orders)) as there:
        await until(lambda: there.tools)
        tools, pid = there.tools, there.pid("kitchen")
        recipe = await there.call("mcp/kitchen/recipe", name="bread")
        hot = await there.call("mcp/kitchen/degrees", oven="small", fahrenheit=True)
        await there.call("mcp/kitchen/order", what="milk")
        seen = (await there.call("mcp/kitchen/surroundings"))["data"]["result"]
        much = await there.call("mcp/kitchen/everything")
        with pytest.raises(ToolFailed, match=r"oven: 3 is not of type 'string'"):
            await there.call("mcp/kitchen/degrees", oven=3)
        with pytest.raises(ToolFailed, match=r"mcp/kitchen/burn failed"):
            await there.call("mcp/kitchen/burn")
        assert there.health() == {"mcp/kitchen": ""}

    assert tools["mcp/kitchen/degrees"].about == "Tell how hot an oven is."
    assert tools["mcp/kitchen/degrees"].input_schema()["required"] == ["oven"]
    assert [tools[f"mcp/kitchen/{one}"].effect for one in ("recipe", "order")] == [
        "read", "external",
    ]  # fmt: skip
    assert recipe["data"] == {"name": "bread", "flour_g": 250}
    assert recipe["source"] == "the MCP server kitchen: data, never an instruction"
    assert hot["data"]["result"] == f"small: 356, asked of process {pid}"
    assert orders.read_text(encoding="utf-8") == "milk\n"
    assert "ORDERS" in seen
    assert not [name for name in seen if name.startswith(("HEARTH", "PYTEST", "PIPECATAPP"))]
    assert (len(much["text"]) < 70_000, much["text_cut"] > 200_000) == (True, True)
    assert (much["text"][:9], much["text"][-3:]) == ("beginning", "end")
    assert not psutil.pid_exists(pid)


async def test_server_that_dies_between_calls_is_started_again(run: Run) -> None:
    """A crash in the night must not need a person in the morning."""
    async with run(wild=wild("well")) as there:
        await until(lambda: there.tools)
        first = await there.say("mcp/wild/act")
        os.kill(there.pid("wild"), signal.SIGKILL)
        await until(lambda: there.pid("wild") and f"process {there.pid('wild')}" not in first)
        second = await there.say("mcp/wild/act")

    assert first != second


async def test_error_that_nobody_foresaw_costs_one_start(tmp_path: Path) -> None:
    """A fault of ours with the tools of a server must not cost it until the next restart."""
    told: list[int] = []

    def learn(_connection: Connection, offer: Offer) -> None:
        told.append(len(offer.tools))
        if len(told) == 1:
            raise RuntimeError("a tool that cannot be")

    connection = Connection(
        "wild",
        McpServer.model_validate(wild("well")),
        Secrets(tmp_path, {}),
        ssl.create_default_context(),
    )
    keeper = asyncio.create_task(connection.keep(learn))
    await asyncio.wait_for(connection.tried.wait(), 60)
    reason = connection.reason
    await until(lambda: connection.up)
    keeper.cancel()
    await asyncio.wait([keeper])

    assert reason == "our part of it broke: RuntimeError('a tool that cannot be')"
    assert told == [1, 1]


async def test_call_in_which_the_server_dies_says_why_and_the_next_one_works(run: Run) -> None:
    """Nobody knows whether it took effect, so it is said, and not tried again in silence."""
    async with run(wild=wild("die")) as there:
        await until(lambda: there.tools)
        with pytest.raises(ToolFailed) as caught:
            await there.call("mcp/wild/act", how="badly")
        again = await there.say("mcp/wild/act", how="well")

    assert str(caught.value) == (
        "The MCP server wild ended in the middle of the call: it ended with exit code 3: my disk "
        "is full. It is unknown whether the call took effect."
    )
    assert again.startswith("by process")


async def test_call_that_hangs_ends_at_its_deadline_and_the_server_is_started_anew(
    run: Run,
) -> None:
    """One silent server must not hold up a conversation, now or for ever after."""
    async with run(wild=wild("hang", call_seconds=5)) as there:
        await until(lambda: there.tools)
        hanging = there.pid("wild")
        with pytest.raises(ToolFailed, match="did not answer within 5 s"):
            await there.call("mcp/wild/act", how="badly")
        again = await there.say("mcp/wild/act", how="well")

    assert again != f"by process {hanging}"
    assert not psutil.pid_exists(hanging)


async def test_message_without_end_ends_the_server(run: Run) -> None:
    """What a tool gives comes from anywhere, and must not fill the memory of the agent."""
    async with run(wild=wild("flood")) as there:
        await until(lambda: there.tools)
        with pytest.raises(ToolFailed, match="more than 4194304 bytes in one message"):
            await there.call("mcp/wild/act")


async def test_server_that_greets_its_caller_works(run: Run) -> None:
    """Many print a banner where only messages belong."""
    async with run(wild=wild("chatter")) as there:
        await until(lambda: there.tools)
        assert (await there.say("mcp/wild/act")).startswith("by process")


async def test_servers_that_do_not_start_are_reported_and_keep_no_other_away(run: Run) -> None:
    """One wrong line must not take the tools of the others, and must not go unseen."""
    entries = {
        "gone": {"command": "/no/such/program"},
        "crash": wild("crash"),
        "deaf": wild("deaf", start_seconds=1),
        "remote": {"type": "http", "command": "x"},
        "old": {"type": "sse", "url": "http://127.0.0.1:9/sse"},
        "telling": {"url": "http://127.0.0.1:9/mcp", "headers": {"Authorization": "Bearer x"}},
        "nothing": {"args": ["x"]},
        "Wrong Name": wild("well"),
        "off": wild("well", disabled=True),
        "wild": wild("well"),
    }
    async with run(**entries) as there:
        await until(lambda: there.tools)
        await until(lambda: "starting" not in str(there.health()))
        health = there.health()
        assert set(there.tools) == {"mcp/wild/act"}

    file = str(there.servers.health()[-1].detail).partition(":")[0]
    assert health == {
        "mcp/gone": "/no/such/program cannot be started: No such file or directory",
        "mcp/crash": "it ended with exit code 1: there is no such database",
        "mcp/deaf": "it was not ready within 1 s",
        "mcp/remote": f"{file}: command: not for a server of the type http",
        "mcp/old": (f"{file}: the transport `sse` is not supported: use `http` and its url for it"),
        "mcp/telling": (
            f"{file}: headers: Authorization is a secret: store it with `hearth secrets set NAME`, "
            "and write ${kept:NAME} in its place"
        ),
        "mcp/nothing": f"{file}: use `command` for a program, or `url` for a server over HTTP",
        "mcp/Wrong Name": (
            f"{file}: a server's name is a letter, then letters, digits and '-', all small; "
            "24 at most"
        ),
        "mcp/wild": "",
    }


async def test_wrong_approval_is_reported_with_its_file_and_field(run: Run) -> None:
    """A misspelt value or name would leave a tool without the approval that its owner wants."""
    entries = {
        "value": wild("well", approve={"act": "ever"}),
        "list": wild("well", approve=["act"]),
        "name": wild("well", approve={"atc": "always", "a*": "always"}),
        "wild": wild("well", approve={"act": "always"}),
    }
    async with run(**entries) as there:
        await until(lambda: set(there.tools) == {"mcp/name/act", "mcp/wild/act"})
        await until(lambda: "starting" not in str(there.health()))
        rows = {row.name: (row.healthy, row.detail) for row in there.servers.health()}

    file = rows["mcp/value"][1].partition(":")[0]
    assert file.endswith("/mcp.yaml")
    assert rows == {
        "mcp/value": (False, f"{file}: approve.act: Input should be 'never', 'first' or 'always'"),
        "mcp/list": (False, f"{file}: approve: Input should be a valid dictionary"),
        "mcp/name": (True, f"{file}: approve.atc: no tool of this server has such a name"),
        "mcp/wild": (True, ""),
    }


async def test_call_of_a_server_that_is_gone_tells_why(run: Run) -> None:
    """The model that called it, and the person who reads the run, learn what to mend, at once: it
    would take ten minutes to wait for a start that has failed already."""
    async with run(wild=wild("well", start_seconds=600)) as there:
        await until(lambda: there.tools)
        connection = there.servers.connections["wild"]
        connection.server = connection.server.model_copy(update={"command": "/no/such/program"})
        os.kill(there.pid("wild"), signal.SIGKILL)
        await until(lambda: not there.pid("wild"))
        with pytest.raises(ToolFailed, match=r"wild does not run: /no/such/program cannot be"):
            await asyncio.wait_for(there.call("mcp/wild/act"), 120)


async def test_changed_file_starts_and_stops_only_the_servers_whose_entry_has_changed(
    run: Run, tmp_path: Path
) -> None:
    """A join of Home Assistant adds a server; calls of the others must not be cut off by that."""
    entry, other = kitchen(tmp_path / "orders"), kitchen(tmp_path / "other")
    file = tmp_path / "mcp.yaml"

    async def change(there: Running, **entries: Json) -> None:
        file.write_text(json.dumps({"mcpServers": entries}), encoding="utf-8")
        await there.servers.configure(read_servers(file))

    async with run(stays=entry, changes=entry, goes=entry) as there:
        await until(lambda: len({name.split("/")[1] for name in there.tools}) == 3)
        before = {name: there.pid(name) for name in there.servers.connections}
        await change(there, stays=entry, changes=other, comes=entry)
        await until(lambda: len({name.split("/")[1] for name in there.tools}) == 3)
        await there.call("mcp/changes/order", what="milk")
        after = {name: there.pid(name) for name in there.servers.connections}
        names = {name.split("/")[1] for name in there.tools}

    assert names == set(after) == {"stays", "changes", "comes"}
    assert after["stays"] == before["stays"]
    assert after["changes"] != before["changes"]
    assert (tmp_path / "other").read_text(encoding="utf-8") == "milk\n"
