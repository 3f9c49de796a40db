"""Conversations belong to the key on whose behalf the gateway sends a request."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.integration.agent.conftest import House

CHAT = "/v1/chat/completions"
OWN = ["key", "service_key", "people", "services"]


def behalf(name: str) -> dict[str, str]:
    """The header of the gateway; only the name matters to the agent."""
    return {"x-hearth-caller": f"{name};1;signature"}


def hello(conversation: str) -> dict[str, object]:
    said = [{"role": "user", "content": "hello"}]
    return {"model": "agent", "messages": said, "conversation": conversation}


def test_list_and_page_of_conversations_hold_only_those_of_the_caller(house: House) -> None:
    """One that belongs to somebody else is answered like one that does not exist."""
    with house.client() as client:
        client.post(CHAT, json=hello("diary")).raise_for_status()
        client.post(CHAT, json=hello("homework"), headers=behalf("child")).raise_for_status()
        lists = [
            [one["id"] for one in client.get(path, headers=who).json()["conversations"]]
            for path in ["/api/conversations"]
            for who in ({}, behalf("child"), behalf("guest"))
        ]
        other = client.get("/api/conversations/diary", headers=behalf("child"))
        absent = client.get("/api/conversations/none", headers=behalf("child"))
        mine = client.get("/api/conversations/homework", headers=behalf("child"))

    assert lists == [["homework", "diary"], ["homework"], []]
    assert (other.status_code, absent.status_code, mine.status_code) == (404, 404, 200)
    assert (
        other.json()["error"]["message"].replace("diary", "none")
        == absent.json()["error"]["message"]
    )


@pytest.mark.parametrize("name", OWN)
def test_built_in_keys_go_on_with_every_conversation(house: House, name: str) -> None:
    """Whoever runs the house keeps the overview, directly and through the gateway."""
    with house.client() as client:
        client.post(CHAT, json=hello("homework"), headers=behalf("child")).raise_for_status()
        answer = client.post(CHAT, json=hello("homework"), headers=behalf(name))
        owner = client.get("/api/conversations/homework", headers=behalf("child"))

    assert answer.status_code == 200
    assert len(owner.json()["turns"]) == 2, "it still belongs to the child"


def test_of_two_keys_that_create_one_conversation_at_once_one_gets_it(house: House) -> None:
    """A check before the row exists would let both in."""
    with house.client() as client, ThreadPoolExecutor(8) as callers:
        answers = list(
            callers.map(
                lambda number: client.post(CHAT, json=hello("new"), headers=behalf(f"k{number}")),
                range(8),
            )
        )

    assert sorted(answer.status_code for answer in answers) == [200, *[404] * 7]


def test_tool_of_a_workflow_reads_no_conversation_of_another_key(empty_house: House) -> None:
    """A workflow that takes the name of a conversation out of a message is no way around."""
    (empty_house.state / "workflows").mkdir()
    (empty_house.state / "workflows" / "peek.yaml").write_text("""
id: peek
inputs: {messages: messages}
steps:
  - {id: past, use: conversation.recall, with: {conversation: "{{ run.request }}"}}
outputs: {text: "{{ past.messages | tojson }}"}
""")
    with empty_house.running(), empty_house.client() as client:
        client.post(CHAT, json=hello("hello")).raise_for_status()
        body = hello("other") | {"model": "workflow/peek"}
        refused = client.post(CHAT, json=body, headers=behalf("guest"))
        allowed = client.post(CHAT, json=body)

    assert "There is no conversation 'hello'" in refused.json()["error"]["message"]
    assert "hello" in allowed.json()["choices"][0]["message"]["content"]
