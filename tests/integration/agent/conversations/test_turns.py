"""Conversations of the web page: turns of every status, on a real agent service."""

import threading
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

from tests.integration.agent.conftest import House, follow

Json = dict[str, Any]

CAREFUL = """
id: careful
inputs: {messages: messages}
steps: [{id: sure, use: human.ask, with: {question: "Really?", choices: ["yes", "no"]}}]
outputs: {text: "You said {{ sure.answer }}."}
"""


def add(client: httpx2.Client, name: str, text: str, model: str = "agent") -> str:
    """Start a turn as the page does; gives its run."""
    answer = client.post(
        f"/api/conversations/{quote(name, safe='')}/turns", json={"text": text, "model": model}
    )
    assert answer.status_code == 201, answer.text
    return str(answer.json()["run"])


def ended(client: httpx2.Client, run: str, until: str = "") -> None:
    """Wait for the end of a run, or for an event of it."""
    with client.stream("GET", f"/api/runs/{run}/events") as events:
        follow(events, until=until)


def shown(client: httpx2.Client, name: str, **asked: str) -> list[Json]:
    """The turns of a conversation."""
    answer = client.get(f"/api/conversations/{quote(name, safe='')}", params=asked)
    assert answer.status_code == 200, answer.text
    turns: list[Json] = answer.json()["turns"]
    return turns


@pytest.fixture
def careful_house(empty_house: House) -> House:
    """A house with a workflow that asks a person."""
    (empty_house.state / "workflows").mkdir()
    (empty_house.state / "workflows" / "careful.yaml").write_text(CAREFUL)
    return empty_house


def test_conversation_holds_its_turns_of_every_status(careful_house: House) -> None:
    """What a person wrote stays, also when the answer failed, was stopped, or waits for them."""
    model = careful_house.model
    model.when("good").say("All is well.")
    model.when("bad").refuse(503, "no expert is healthy")
    model.when("long").say("one two three", held=threading.Event(), held_after=2)
    with careful_house.running(), careful_house.client() as client:
        ended(client, add(client, "c-1", "good"))
        ended(client, add(client, "c-1", "bad"))
        stopped = add(client, "c-1", "long")
        ended(client, stopped, until="delta")
        running = shown(client, "c-1")[-1]
        client.post(f"/api/runs/{stopped}/cancel")
        asks = add(client, "c-1", "sure", model="workflow/careful")
        ended(client, asks, until="node.waiting")
        turns = shown(client, "c-1")
        newer = shown(client, "c-1", after=stopped)

    assert (running["status"], running["assistant"]) == ("running", "")
    assert [(t["user"], t["status"]) for t in turns] == [
        ("good", "done"),
        ("bad", "failed"),
        ("long", "cancelled"),
        ("sure", "waiting"),
    ]
    assert turns[0]["assistant"] == "All is well."
    assert "no expert is healthy" in turns[1]["error"]
    assert turns[2]["assistant"].startswith("one")
    [question] = turns[3]["questions"]
    assert (question["path"], question["open"], question["answer"]) == ("sure", True, None)
    assert question["question"]["text"] == "Really?"
    assert [t["run"] for t in newer] == [asks]


def test_answered_question_stays_in_its_turn(careful_house: House) -> None:
    """An answer is something that a person said, so a reload shows it."""
    with careful_house.running(), careful_house.client() as client:
        run = add(client, "c-1", "sure", model="workflow/careful")
        ended(client, run, until="node.waiting")
        client.post(f"/api/runs/{run}/answer", json={"path": "sure", "value": "no"})
        ended(client, run)
        [turn] = shown(client, "c-1")

    assert (turn["status"], turn["assistant"]) == ("done", "You said no.")
    assert [(q["open"], q["answer"]) for q in turn["questions"]] == [(False, "no")]


@pytest.mark.parametrize("name", ["a/b", "häuser & höfe?", "100%"])
def test_listed_conversation_is_always_found(house: House, name: str) -> None:
    """A link in the list must not lead to nothing: not while its first answer is on its way, and
    not for a name that another program chose."""
    house.model.when("hello").hang()
    with house.client() as client:
        client.post("/api/runs", json={"workflow": "agent-turn", "conversation": name,
                                       "inputs": {"text": "hello"}})  # fmt: skip
        listed = [one["id"] for one in client.get("/api/conversations").json()["conversations"]]
        turns = shown(client, name)
        unknown = client.get("/api/conversations/nobody")

    assert listed == [name]
    assert [turn["user"] for turn in turns] == ["hello"]
    assert unknown.status_code == 404


def test_turn_continues_without_its_page_and_is_followed_again(house: House) -> None:
    """A reload, or a network that was away, costs neither the run nor a word of the answer."""
    held = threading.Event()
    house.model.when("story").say("one two three four", held=held, held_after=2)
    with house.client() as client:
        run = add(client, "c-1", "story")
        with client.stream("GET", f"/api/runs/{run}/events") as events:
            before = follow(events, until="delta")
        last = next(event.id for event in reversed(before) if event.id)
        held.set()
        headers = {"last-event-id": last}
        with client.stream("GET", f"/api/runs/{run}/events", headers=headers) as events:
            after = follow(events)
        [turn] = shown(client, "c-1")

    assert (turn["status"], turn["assistant"]) == ("done", "one two three four")
    assert house.model.aborted == 0
    ids = [int(event.id) for event in after if event.id]
    assert min(ids) > int(last)
    assert "run.done" in [event.event for event in after]
    assert after[-1].event == "end"


def test_model_reads_what_became_of_earlier_turns(careful_house: House) -> None:
    """A person refers to an answer they stopped; the model must know that it was one, and why it
    is incomplete."""
    model = careful_house.model
    model.when("bad").refuse(503, "no expert is healthy")
    model.when("long").say("one two three", held=threading.Event(), held_after=2)
    with careful_house.running(), careful_house.client() as client:
        ended(client, add(client, "c-1", "bad"))
        stopped = add(client, "c-1", "long")
        ended(client, stopped, until="delta")
        client.post(f"/api/runs/{stopped}/cancel")
        asks = add(client, "c-1", "sure", model="workflow/careful")
        ended(client, asks, until="node.waiting")
        client.post(f"/api/runs/{asks}/answer", json={"path": "sure", "value": "yes"})
        ended(client, asks)
        again = add(client, "c-1", "sure again", model="workflow/careful")
        ended(client, again, until="node.waiting")
        ended(client, add(client, "c-1", "and now?"))

    said = [(m["role"], m["content"]) for m in model.requests[-1].body["messages"]][1:]
    assert said[0] == ("user", "bad")
    assert said[1][0] == "assistant"
    assert said[1][1].startswith("[This answer failed: ")
    assert said[2] == ("user", "long")
    assert said[3][1].startswith("one")
    assert said[3][1].endswith("[The user stopped this answer here.]")
    assert said[4:8] == [
        ("user", "sure"),
        ("assistant", "Really?"),
        ("user", "yes"),
        ("assistant", "You said yes."),
    ]
    assert said[8][1] == "sure again"
    assert said[9][1] == "[The user has not answered this question yet: Really?]"
    assert said[10:] == [("user", "and now?")]


def test_turn_of_another_callers_conversation_is_refused(house: House) -> None:
    """The route of the page gives nobody what the route of OpenAI's clients does not."""
    with house.client() as client:
        ended(client, add(client, "diary", "hello"))
        answer = client.post(
            "/api/conversations/diary/turns",
            json={"text": "hello"},
            headers={"x-hearth-caller": "child;1;signature"},
        )

    assert answer.status_code == 404
    assert len(house.model.requests) == 1


def test_conversation_of_an_imported_run_is_found(house: House) -> None:
    """The page of an imported run leads to its conversation."""
    with house.client() as client:
        run = add(client, "c-1", "hello")
        ended(client, run)
        lines = client.get(f"/api/runs/{run}/export").text
        client.post("/api/runs/prune", json={"days": 0, "keep": 0}).raise_for_status()
        pruned = client.get("/api/conversations/c-1")
        client.post("/api/runs/import", content=lines).raise_for_status()
        [turn] = shown(client, "c-1")

    assert pruned.status_code == 404
    assert (turn["user"], turn["status"]) == ("hello", "done")
