"""Workflows as tools of the Model Context Protocol, asked by its official client."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, TextContent

from tests.integration.agent.conftest import House
from tests.shown import Shown

SHOUT = """
kind: workflow
id: shout
about: Say a word louder, as often as is asked.
inputs:
  word: {type: text, about: What to say.}
  times: {type: integer, default: 2}
steps:
  - {id: said, use: value, with: {value: "{{ inputs.word | upper }}"}}
outputs:
  louder: "{{ said.value }}"
"""
CROWD = """
kind: workflow
id: crowd
about: Shout what is asked, by another workflow.
inputs: {word: text}
steps:
  - {id: one, use: workflow/shout, with: {word: "{{ inputs.word }}"}}
outputs:
  heard: "{{ one.louder }}"
"""
ASK = """
kind: workflow
id: decide
inputs: {what: text}
steps:
  - id: sure
    use: human.ask
    with: {question: "Shall I {{ inputs.what }}?", choices: ["yes", "no"]}
outputs: {answer: "{{ sure.answer }}"}
"""


@asynccontextmanager
async def connected(house: House, *, key: str | None = None) -> AsyncIterator[Client]:
    """The protocol's own client, with the key of people."""
    headers = {"authorization": f"Bearer {house.key if key is None else key}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60, trust_env=False) as http:
        transport = streamable_http_client(f"{house.address}/mcp", http_client=http)
        async with Client(transport) as client:
            yield client


def text_of(result: CallToolResult) -> str:
    [content] = result.content
    assert isinstance(content, TextContent)
    return content.text


@pytest.fixture
def house(empty_house: House) -> Iterator[House]:
    """An instance with three workflows of its own."""
    folder = empty_house.state / "workflows"
    folder.mkdir()
    for name, text in {"shout": SHOUT, "crowd": CROWD, "decide": ASK}.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    with empty_house.running():
        yield empty_house


def runs(house: House) -> list[dict[str, Any]]:
    with house.client() as api:
        return list(api.get("/api/runs").json()["runs"])


@pytest.mark.proves("001-11")
async def test_workflow_is_a_tool_of_nodes_of_the_list_and_of_mcp(house: House) -> None:
    """Written once, it can be used by another workflow, a form, and any program that speaks MCP."""
    with house.client() as api:
        listed = {tool["name"]: tool for tool in api.get("/api/tools").json()["tools"]}
        body = {"workflow": "crowd", "inputs": {"word": "snow"}}
        used = api.post("/api/runs", json=body).json()
        used = house_run(house, used["run"])
    async with connected(house) as client:
        offered = {tool.name: tool for tool in (await client.list_tools()).tools}
        result = await client.call_tool("shout", {"word": "snow"})

    assert used["outputs"] == {"heard": "SNOW"}
    assert listed["workflow/shout"]["effect"] == "pure"
    assert listed["workflow/decide"]["effect"] == "human"
    assert listed["workflow/shout"]["inputs"] == offered["shout"].input_schema
    assert offered["shout"].input_schema["required"] == ["word"]
    assert offered["shout"].description == "Say a word louder, as often as is asked."
    assert result.structured_content == {"louder": "SNOW"}
    assert json.loads(text_of(result)) == {"louder": "SNOW"}
    assert not result.is_error


async def test_call_is_a_run_that_everybody_sees(house: House) -> None:
    """What a program does with the house stands beside what people do."""
    async with connected(house) as client:
        result = await client.call_tool("shout", {"word": "snow"})

    [run] = runs(house)
    assert result.meta is not None
    assert result.meta["hearth/run"] == run["id"]
    assert (run["workflow"], run["status"]) == ("shout", "done")
    assert house_run(house, run["id"])["caller"] == "mcp"


async def test_tools_say_what_they_may_do(house: House) -> None:
    """A client asks its person before it calls what changes the world."""
    async with connected(house) as client:
        offered = {tool.name: tool for tool in (await client.list_tools()).tools}

    assert offered["shout"].annotations is not None
    assert offered["shout"].annotations.read_only_hint
    assert offered["decide"].annotations is not None
    assert not offered["decide"].annotations.read_only_hint
    assert offered["decide"].output_schema is None


@pytest.mark.parametrize(
    ("name", "inputs", "said"),
    [("shout", {}, "word"), ("shout", {"word": 7}, "word"), ("whisper", {}, "whisper"),
     ("shout", {"word": "snow", "loud": True}, "loud")],
)  # fmt: skip
async def test_wrong_call_is_told_to_the_model(
    house: House, name: str, inputs: dict[str, Any], said: str
) -> None:
    """A model mends a call when it can read what is wrong; one of the protocol it never sees."""
    async with connected(house) as client:
        result = await client.call_tool(name, inputs)

    assert result.is_error
    assert said in text_of(result)
    assert runs(house) == []


async def test_question_ends_the_call_and_the_run_goes_on(house: House) -> None:
    """A person may answer tomorrow; no program waits so long."""
    async with connected(house) as client:
        result = await client.call_tool("decide", {"what": "jump"})
    [run] = runs(house)
    with house.client() as api:
        answer = {"path": "sure", "value": "yes"}
        answered = api.post(f"/api/runs/{run['id']}/answer", json=answer)

    assert not result.is_error
    assert text_of(result).startswith("Shall I jump? (yes, no)")
    assert f"hearth runs answer {run['id']} sure" in text_of(result)
    assert answered.is_success, answered.text


async def test_failed_run_is_an_error_of_the_tool(house: House) -> None:
    """Its reason is what the model, or the person before it, has to know."""
    house.model.when("").refuse(400)

    async with connected(house) as client:
        result = await client.call_tool("summarize", {"text": "Snow fell."})

    assert result.is_error
    assert "failed" in text_of(result)


async def test_who_gives_a_call_up_cancels_its_run(house: House) -> None:
    """A closed program must not keep a model busy."""
    house.model.when("").hang()
    async with connected(house) as client:
        call = asyncio.create_task(client.call_tool("summarize", {"text": "Snow fell."}))
        await asyncio.to_thread(house.model.wait_until, lambda model: len(model.requests) == 1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await asyncio.to_thread(house.model.wait_until, lambda model: model.aborted == 1)

    [run] = runs(house)
    # The model is left a moment before the end of the run is written.
    assert house_run(house, run["id"])["status"] == "cancelled"


async def test_nothing_is_offered_without_a_key(house: House) -> None:
    """The tools of a house are not for everybody in its network."""
    with httpx2.Client(base_url=house.address, trust_env=False, timeout=60) as nobody:
        answers = [nobody.post("/mcp", json={}), nobody.delete("/mcp"), nobody.get("/mcp")]
    with house.client(key="sk-wrong") as wrong:
        answers.append(wrong.post("/mcp", json={}))

    assert [answer.status_code for answer in answers] == [401, 401, 405, 401]


def test_client_that_ends_no_session_keeps_nobody_out(house: House) -> None:
    """A script that asks each minute and forgets to say good-bye must not lock the house."""
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "forgetful", "version": "1"},
        },
    }
    accepts = {"accept": "application/json, text/event-stream"}
    with house.client() as client:
        answers = [client.post("/mcp", json=hello, headers=accepts) for _ in range(120)]

    assert {answer.status_code for answer in answers} == {200}


def test_page_about_workflows_as_tools_works_as_written(
    house: House, shown: Shown, tmp_path: Path
) -> None:
    """Whoever pastes it wants an answer, and not to learn the protocol first."""
    state = tmp_path / "home" / ".local" / "share" / "hearth"
    state.mkdir(parents=True)
    (state / "key").write_text(house.key, encoding="utf-8")
    house.model.when("").say("It snowed.")
    program = shown.take("docs/howto/use-mcp-servers.md")

    ended = subprocess.run(
        [sys.executable, "-c", program.replace("http://127.0.0.1:8000", house.address)],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home")}, timeout=120,
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert ended.returncode == 0, ended.stderr
    assert "shout: Say a word louder, as often as is asked." in ended.stdout
    assert ended.stdout.endswith("It snowed.\n")


def house_run(house: House, run: str) -> dict[str, Any]:
    """The run, when it has ended."""
    with house.client() as api:
        api.get(f"/api/runs/{run}/events")
        found: dict[str, Any] = api.get(f"/api/runs/{run}").json()
        return found
