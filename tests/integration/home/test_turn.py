"""A turn about the home: an exact command is carried out without a model, all else goes to one."""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from hearth.openai_api.testing import ScriptedModel
from pipecatapp.application.home import Joined
from tests.integration.agent.conftest import House, empty_house
from tests.integration.gateway.conftest import wait_until

__all__ = ["empty_house"]
DEVICES = Path(__file__).with_name("devices.py")
JOINED = Joined(
    url="http://127.0.0.1:8123", name="Home", version="2026.11.0", language="de",
    hearth_url="http://127.0.0.1:8080/v1", secret="home-assistant", key="home-assistant",
    agent="conversation.agent", agent_entry="1", server_entry="2", since="2026-11-29T05:00:00Z",
)  # fmt: skip


@dataclass
class Home:
    """A running instance whose home is German."""

    house: House
    file: Path

    @property
    def model(self) -> ScriptedModel:
        return self.house.model

    @property
    def actions(self) -> list[str]:
        """What the devices were told to do."""
        return self.file.read_text(encoding="utf-8").splitlines() if self.file.exists() else []

    def say(self, text: str, **more: Any) -> tuple[str, str]:
        """Say something to the agent; return the answer and the run."""
        answer = self.house.ask(text, **more)
        assert answer.status_code == 200, answer.text
        content: str = answer.json()["choices"][0]["message"]["content"]
        return content, answer.headers["x-hearth-run"]

    def steps(self, run: str) -> list[tuple[str, str, str]]:
        """Tool, effect and status of the steps of a run."""
        with self.house.client() as client:
            found = client.get(f"/api/runs/{run}").raise_for_status().json()
        return [(one["tool"], one["effect"], one["status"]) for one in found["steps"]]

    def answer(self, run: str, path: str, value: str) -> httpx2.Response:
        """Answer the question of a run."""
        with self.house.client() as client:
            return client.post(f"/api/runs/{run}/answer", json={"path": path, "value": value})


@pytest.fixture
def german(empty_house: House, tmp_path: Path) -> Iterator[Home]:
    """The service with the devices as an MCP server, when it knows their names."""
    file = tmp_path / "actions"
    entry = {"command": sys.executable, "args": [str(DEVICES)], "env": {"ACTIONS": str(file)}}
    servers = {"mcpServers": {"home": entry | {"start_seconds": 120}}}
    (empty_house.state / "mcp.yaml").write_text(json.dumps(servers))
    (empty_house.state / "home.json").write_text(JOINED.model_dump_json())
    with empty_house.running(), empty_house.client() as client:
        wait_until(lambda: bool(client.get("/api/home").json()["devices"]))
        yield Home(empty_house, file)


def test_exact_command_acts_without_a_model(german: Home) -> None:
    """A light that comes on seconds later is no better than one that does not."""
    text, run = german.say("Schalte die Küchenlampe ein")

    assert text == "Licht eingeschaltet"
    assert german.actions == ["on Küchenlampe light"]
    assert german.model.requests == []
    assert german.steps(run) == [
        ("home.act", "external", "done"),
        ("mcp/home/intent__hassturnon", "external", "done"),
    ]


def test_alias_and_area_are_understood(german: Home) -> None:
    """People have several words for the same lamp, and say where it is."""
    german.say("Kitchen Lamp ausschalten")
    german.say("Mach das Licht in der Küche an")

    assert german.actions == ["off Küchenlampe light", "on Küche light"]


def test_sentence_that_is_no_command_goes_to_the_model(german: Home) -> None:
    """A sentence that only contains a command may mean the opposite."""
    german.model.when("Wann").say("Nie.")
    text, _ = german.say("Wann würdest du sagen: schalte die Küchenlampe ein?")

    assert text == "Nie."
    assert german.actions == []


@pytest.mark.parametrize(("value", "actions"), [("yes", ["off Haustür lock"]), ("no", [])])
def test_lock_of_any_name_waits_for_a_person(german: Home, value: str, actions: list[str]) -> None:
    """Only Home Assistant knows that the Haustür is a lock; no word of the sentence says so."""
    text, run = german.say("Schließe die Haustür auf")
    before = german.actions
    german.answer(run, "act/confirm", value).raise_for_status()
    wait_until(lambda: german.steps(run)[0][2] == "done")

    assert "'Schließe die Haustür auf': may Home Assistant do this?" in text
    assert (before, german.actions) == ([], actions)


def test_lock_is_approved_each_time_a_model_wants_it(german: Home) -> None:
    """An approval of the lamp in this conversation is none of the lock."""
    german.model.when("sicher").call_tool("mcp_home_intent__hassturnoff", {"name": "Haustür"})
    german.model.when("hell").call_tool("mcp_home_intent__hassturnon", {"name": "Küchenlampe"})
    lock, _ = german.say("Mach es sicher", conversation="c-1")
    lamp, _ = german.say("Mach es hell", conversation="c-2")

    assert "This is asked before each call, and not answered by voice alone." in lock
    assert "`yes` also allows it in the rest of this conversation." in lamp
    assert german.actions == []


def test_command_is_a_turn_of_its_conversation(german: Home) -> None:
    """The model that is asked next knows what was done."""
    german.model.when("Was war").say("Du hast die Lampe eingeschaltet.")
    german.say("Schalte die Küchenlampe ein", conversation="c-1")
    german.say("Was war das?", conversation="c-1")

    said = [one["content"] for one in german.model.requests[-1].body["messages"]]
    assert said[-3:] == ["Schalte die Küchenlampe ein", "Licht eingeschaltet", "Was war das?"]


def test_workflow_names_the_devices_where_a_command_is_not_exact(german: Home) -> None:
    """Who starts the workflow by hand sees what it would have understood."""
    with german.house.client() as client:
        body = {"workflow": "home-turn", "inputs": {"text": "Öffne das Fenster"}}
        run = client.post("/api/runs", json=body).raise_for_status().json()["run"]
        wait_until(lambda: client.get(f"/api/runs/{run}").json()["status"] == "failed")
        error = client.get(f"/api/runs/{run}").json()["error"]

    assert "'Öffne das Fenster' is not an exact command to a device." in error
    assert "Küchenlampe, Haustür" in error


@pytest.mark.parametrize("kept", [{}, {"conversation": "c-1"}], ids=["caller", "kept"])
def test_model_reads_the_devices_that_a_sentence_may_be_about(
    german: Home, kept: dict[str, str]
) -> None:
    """It can answer whether the lamp is on without a call, and a stored question has no list."""
    german.model.when("Küchenlampe").say("Nein.")
    _, run = german.say("Brennt die Küchenlampe eigentlich?", **kept)
    with german.house.client() as client:
        shown = client.get(f"/api/runs/{run}").json()["request"]

    last = german.model.requests[-1].body["messages"][-1]
    assert last["role"] == "user"
    assert last["content"].startswith("Brennt die Küchenlampe eigentlich?\n\n<home-devices>")
    assert "- Küchenlampe: light in Küche, off" in last["content"]
    assert "Haustür" not in last["content"]
    assert shown == "Brennt die Küchenlampe eigentlich?"


def test_functions_that_a_client_offers_are_named_as_ignored(german: Home) -> None:
    """Home Assistant offers a function when it checks the connection; a refusal would end that."""
    german.model.when("capital").say("Paris.")
    function = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    answer = german.house.ask("the capital of France", tools=[function])

    assert answer.json()["choices"][0]["message"]["content"] == "Paris."
    assert answer.headers["x-hearth-ignored"] == "tools"
    assert "f" not in [
        one["function"]["name"] for one in german.model.requests[-1].body.get("tools", [])
    ]
