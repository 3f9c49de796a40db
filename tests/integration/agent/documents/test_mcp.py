"""Workflows as tools of the Model Context Protocol, asked by its official client."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client import ClientRequestContext
from mcp.client.streamable_http import streamable_http_client
from mcp.types import (
    CallToolResult,
    ElicitRequestParams,
    ElicitResult,
    InputRequiredResult,
    InputResponses,
    TextContent,
    TextResourceContents,
)

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
async def connected(house: House, **more: Any) -> AsyncIterator[Client]:
    """The protocol's own client, with the key of people."""
    headers = {"authorization": f"Bearer {house.key}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60, trust_env=False) as http:
        transport = streamable_http_client(f"{house.address}/mcp", http_client=http)
        async with Client(transport, **more) as client:
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


@dataclass
class Person:
    """Whoever sits before a client, and what they were asked."""

    reply: ElicitResult
    asked: list[Any] = field(default_factory=list)

    async def __call__(
        self, context: ClientRequestContext, params: ElicitRequestParams
    ) -> ElicitResult:
        self.asked.append(params)
        return self.reply


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_question_of_a_run_is_asked_by_the_client(house: House, mode: str) -> None:
    """A person answers where they are, in their editor, and the call gives the result."""
    person = Person(ElicitResult(action="accept", content={"answer": "yes"}))
    async with connected(house, elicitation_callback=person, mode=mode) as client:
        result = await client.call_tool("decide", {"what": "jump"})

    [form] = person.asked
    assert form.message == "Shall I jump?"
    assert form.requested_schema["properties"]["answer"]["enum"] == ["yes", "no"]
    assert (result.is_error, result.structured_content) == (False, {"answer": "yes"})
    [run] = runs(house)
    assert (run["workflow"], run["status"]) == ("decide", "done")


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize(
    ("reply", "error", "text", "status"),
    [
        (ElicitResult(action="decline"), True, "declined to answer", "cancelled"),
        (ElicitResult(action="cancel"), False, "still waits for the answer", "waiting"),
        (
            ElicitResult(action="accept", content={"answer": "maybe"}),
            True,
            "The answer is not valid: ",
            "waiting",
        ),
        (ElicitResult(action="accept"), True, "The answer is not valid: ", "waiting"),
    ],
)
async def test_person_who_does_not_answer_decides_nothing(
    house: House, mode: str, reply: ElicitResult, *, error: bool, text: str, status: str
) -> None:
    """A closed window is not a yes."""
    async with connected(house, elicitation_callback=Person(reply), mode=mode) as client:
        result = await client.call_tool("decide", {"what": "jump"})

    assert result.is_error is error
    assert text in text_of(result)
    [run] = runs(house)
    assert run["status"] == status


async def test_state_of_a_question_is_of_use_to_nobody_else(house: House) -> None:
    """A client keeps the state of a run; a changed, foreign or repeated one must move nothing."""
    async with connected(house, elicitation_callback=Person(ElicitResult(action="cancel"))) as one:
        first = await one.session.call_tool("decide", {"what": "jump"}, allow_input_required=True)
        assert isinstance(first, InputRequiredResult)
        state = first.request_state or ""
        yes: InputResponses = {"answer": ElicitResult(action="accept", content={"answer": "yes"})}
        for name, given, changed in (
            ("decide", {"what": "jump"}, f"{state[:-2]}AA"),
            ("decide", {"what": "fly"}, state),
            ("shout", {"word": "x"}, state),
            ("decide", {"what": "jump"}, json.dumps({"run": "r", "path": "sure", "seq": 1})),
        ):
            with pytest.raises(MCPError, match="Invalid or expired requestState"):
                await one.session.call_tool(name, given, input_responses=yes, request_state=changed)
        waiting = runs(house)[0]["status"]
        done = await one.call_tool(
            "decide", {"what": "jump"}, input_responses=yes, request_state=state
        )
        again = await one.call_tool(
            "decide", {"what": "jump"}, input_responses=yes, request_state=state
        )

    assert "run" not in state
    assert waiting == "waiting"
    assert done.structured_content == {"answer": "yes"}
    assert again.structured_content == {"answer": "yes"}
    assert len(runs(house)) == 1


async def test_notes_are_tools_and_resources(house: House) -> None:
    """What one remembers in an editor is known in the kitchen, and the other way round."""
    async with connected(house) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        saved = await client.call_tool("note_save", {"text": "Ann likes {{ 1 + 1 }} teas."})
        found = await client.call_tool("note_find", {"query": "teas"})
        wrong = await client.call_tool("note_save", {"words": "x", "}} {{ inputs": "y"})
        short = await client.call_tool("note_save", {})
        [note] = (await client.list_resources()).resources
        [template] = (await client.list_resource_templates()).resource_templates
        [contents] = (await client.read_resource(str(note.uri))).contents
        with pytest.raises(MCPError, match="There is no resource"):
            await client.read_resource("hearth://notes/none")
        with pytest.raises(MCPError, match="There is no resource"):
            await client.read_resource("file:///etc/passwd")

    assert not saved.is_error, text_of(saved)
    assert saved.structured_content is not None
    assert found.structured_content is not None
    assert [one["text"] for one in found.structured_content["notes"]] == [
        "Ann likes {{ 1 + 1 }} teas."
    ]
    assert text_of(wrong).startswith("note_save has no input words, }} {{ inputs: use text")
    assert (short.is_error, "text" in text_of(short)) == (True, True)
    assert tools["note_find"].annotations is not None
    assert tools["note_find"].annotations.read_only_hint
    assert str(note.uri) == f"hearth://notes/{saved.structured_content['id']}"
    assert template.uri_template == "hearth://notes/{id}"
    assert isinstance(contents, TextResourceContents)
    assert contents.text == "Ann likes {{ 1 + 1 }} teas."


async def test_prompts_of_the_library_are_offered(house: House) -> None:
    """A text that was written once for the house is used in every program."""
    async with connected(house) as client:
        listed = {one.name: one for one in (await client.list_prompts()).prompts}
        name = next(iter(listed))
        prompt = await client.get_prompt(name)
        with pytest.raises(MCPError, match="There is no prompt 'nothing'"):
            await client.get_prompt("nothing")
        with pytest.raises(MCPError, match="has no arguments"):
            await client.get_prompt(name, {"x": "y"})
    with house.client() as api:
        texts = api.get("/api/prompts").text

    assert isinstance(prompt.messages[0].content, TextContent)
    assert json.dumps(prompt.messages[0].content.text.strip()[:40])[1:-1] in texts


async def test_client_learns_where_keys_are_checked(house: House) -> None:
    """A client without a key finds out what this server takes (RFC 9728)."""
    place = f"{house.address}/.well-known/oauth-protected-resource/mcp"
    with httpx2.Client(base_url=house.address, trust_env=False, timeout=60) as nobody:
        refused = nobody.post("/mcp", json={})
        wrong = nobody.post("/mcp", json={}, headers={"authorization": "Bearer sk-wrong"})
        told = nobody.get(place).json()
        short = nobody.get("/.well-known/oauth-protected-resource").json()

    challenge = f'resource_metadata="{place}"'
    assert refused.headers["www-authenticate"] == f'Bearer realm="hearth", {challenge}'
    assert wrong.headers["www-authenticate"] == (
        f'Bearer realm="hearth", error="invalid_token", {challenge}'
    )
    assert (
        told
        == short
        == {
            "resource": f"{house.address}/mcp",
            "resource_name": "Hearth",
            "bearer_methods_supported": ["header"],
            "scopes_supported": ["chat", "workflows", "exec", "admin"],
        }
    )


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
