"""Volatile lines of system prompts on their way through the gateway."""

import json

import httpx2
import pytest

from hearth.openai_api.testing import ScriptedModel
from tests.integration.gateway.conftest import CHAT, Json, Lab

RULES = "You look after a house. Its doors and lamps are yours to know. " * 20
CLOCK = "Current time: 14:03:22"
SYSTEM = {"role": "system", "content": f"{CLOCK}\n{RULES}"}
USER = {"role": "user", "content": "hello"}
MOVED = f"hello\n\n<system>\n{CLOCK}\n</system>"
REASON = "volatile lines of the system prompt moved to the end: 1"

BODIES: dict[str, Json] = {
    CHAT: {"messages": [SYSTEM, USER]},
    "/v1/responses": {"instructions": SYSTEM["content"], "input": "hello"},
    "/v1/messages": {"system": SYSTEM["content"], "messages": [USER], "max_tokens": 9},
    "/api/chat": {"messages": [SYSTEM, USER], "stream": False},
}


def send(gateway: httpx2.Client, path: str) -> httpx2.Response:
    return gateway.post(path, json={"model": "small", **BODIES[path]}).raise_for_status()


@pytest.mark.parametrize("path", BODIES)
def test_clock_is_moved_on_every_path(lab: Lab, path: str) -> None:
    """And the route reason says so."""
    model = ScriptedModel()
    gateway = lab.gateway(lab.expert(model))

    answer = send(gateway, path)

    assert REASON in answer.headers["x-hearth-route"]
    sent = model.requests[0].body["messages"]
    assert [one["content"] for one in sent] == [RULES, MOVED]


def test_setting_leaves_prompts_as_they_are(lab: Lab) -> None:
    """Who wants the very bytes gets them."""
    model = ScriptedModel()
    gateway = lab.gateway(lab.expert(model), stable_prefixes=False)

    answer = send(gateway, CHAT)

    assert "volatile" not in answer.headers["x-hearth-route"]
    assert model.requests[0].body["messages"] == [SYSTEM, USER]


def test_agent_gets_the_words_of_its_user(lab: Lab) -> None:
    """It reads the last turn itself, and writes the prompts of its models."""
    agent = ScriptedModel("small")
    gateway = lab.gateway(lab.agent(agent))

    send(gateway, CHAT)

    assert agent.requests[0].body["messages"] == [SYSTEM, USER]


def test_session_of_claude_code_is_a_conversation(lab: Lab) -> None:
    """Its header names it, so that a number which changes is found in the second turn."""
    model = ScriptedModel()
    gateway = lab.gateway(lab.expert(model))
    session = {"x-claude-code-session-id": "s-1"}
    for turn in (1, 2):
        system = {"role": "system", "content": f"turn {turn}\n{RULES}"}
        body = {"model": "small", "messages": [system, USER]}
        answer = gateway.post(CHAT, json=body, headers=session)

    assert REASON in answer.headers["x-hearth-route"]
    assert "turn 2" in json.dumps(model.requests[1].body["messages"][-1])
