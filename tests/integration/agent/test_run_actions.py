"""What a person does with a run that is there: start it again, delete it, export several."""

import json
from collections.abc import Iterator

import httpx2
import pytest

from tests.integration.agent.conftest import House, follow
from tests.integration.agent.test_cli import announce, command
from tests.integration.agent.test_history import TEAPOT, found, run
from tests.integration.agent.test_owners import CHAT, behalf

ASK = """id: ask
steps: [{id: which, use: human.ask, with: {question: Which one?}}]
outputs: {text: "{{ which.answer }}"}
"""


@pytest.fixture
def client(house: House) -> Iterator[httpx2.Client]:
    """Calls the agent service with the key of people."""
    with house.client() as client:
        yield client


def end(client: httpx2.Client, name: str) -> None:
    with client.stream("GET", f"/api/runs/{name}/events") as events:
        follow(events)


def waiting(client: httpx2.Client, document: str = ASK) -> str:
    """A run that waits for a person."""
    name = str(client.post("/api/runs", json={"document": document}).json()["run"])
    with client.stream("GET", f"/api/runs/{name}/events") as events:
        follow(events, until="node.waiting")
    return name


def test_run_again_starts_the_same_document_with_the_same_inputs_anew(
    house: House, client: httpx2.Client
) -> None:
    """A document that nobody saved, and a model that is asked once more."""
    text = "id: said\ninputs: {text: text}\nsteps: [{id: a, use: llm, with: {text: Rhyme}}]\n"
    text += 'outputs: {text: "{{ a.text }} {{ inputs.text }}"}\n'
    house.model.when("Rhyme").say("Tea").say("Sea")
    first = run(client, "for me", document=text)
    again = str(client.post(f"/api/runs/{first}/again").raise_for_status().json()["run"])
    end(client, again)
    views = [client.get(f"/api/runs/{name}").json() for name in (first, again)]

    assert [view["outputs"]["text"] for view in views] == ["Tea for me", "Sea for me"]
    assert views[0]["inputs"] == views[1]["inputs"]
    assert views[1]["forked"] is None
    assert client.post("/api/runs/nosuch/again").status_code == 404


def test_runs_are_deleted_together_or_not_at_all(client: httpx2.Client) -> None:
    """Half of a selection that is gone would leave a person guessing which half."""
    one, two = run(client, "green", document=TEAPOT), run(client, "black", document=TEAPOT)
    busy = waiting(client)
    refused = client.post("/api/runs/delete", json={"runs": [one, busy]})
    unknown = client.post("/api/runs/delete", json={"runs": [one, "nosuch"]})
    left = found(client)
    client.post("/api/runs/delete", json={"runs": [one, two]}).raise_for_status()

    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "run_unfinished")
    assert unknown.status_code == 404
    assert left == [busy, two, one]
    assert found(client) == [busy]
    assert client.get(f"/api/runs/{one}").status_code == 404
    assert client.delete(f"/api/runs/{busy}").status_code == 409
    client.post(f"/api/runs/{busy}/cancel").raise_for_status()
    assert client.delete(f"/api/runs/{busy}").status_code == 204
    assert found(client) == []


def test_origin_of_an_unfinished_fork_is_not_deleted(client: httpx2.Client) -> None:
    """The fork still takes outputs over from it."""
    origin = waiting(client)
    client.post(f"/api/runs/{origin}/cancel").raise_for_status()
    fork = client.post(f"/api/runs/{origin}/fork", json={}).json()["run"]
    refused = client.delete(f"/api/runs/{origin}")

    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "run_unfinished")
    assert found(client) == [fork, origin]


def test_exported_runs_come_back_together(client: httpx2.Client) -> None:
    """A selection is moved to another machine as one file."""
    names = [run(client, word, document=TEAPOT) for word in ("green", "black")]
    lines = client.post("/api/runs/export", json={"runs": names}).raise_for_status().text
    client.post("/api/runs/delete", json={"runs": names}).raise_for_status()
    imported = client.post("/api/runs/import", content=lines.encode()).raise_for_status().json()

    assert imported["runs"] == names
    assert found(client) == names[::-1]
    assert lines.startswith(client.get(f"/api/runs/{names[0]}/export").text)


def test_key_of_a_person_deletes_and_exports_only_runs_of_its_own(client: httpx2.Client) -> None:
    """Naming the run of somebody else must not be enough."""
    said = {"model": "agent", "messages": [{"role": "user", "content": "a secret"}]}
    client.post(CHAT, json=said).raise_for_status()
    (name,) = found(client)
    theirs = behalf("child")
    answers = [
        client.post(f"/api/runs/{what}", json={"runs": [name]}, headers=theirs)
        for what in ("delete", "export")
    ]
    answers.append(client.delete(f"/api/runs/{name}", headers=theirs))
    answers.append(client.post(f"/api/runs/{name}/again", headers=theirs))

    assert [answer.status_code for answer in answers] == [404] * 4
    assert found(client) == [name]


def test_commands_start_again_export_and_delete(
    house: House, client: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same from the shell."""
    announce(house)
    hearth = command(house, monkeypatch)
    name = run(client, "green", document=TEAPOT)

    again = json.loads(hearth("runs", "again", name, "--json").stdout)
    lines = hearth("runs", "export", name, again["run"]).stdout
    gone = hearth("runs", "delete", name, again["run"])

    assert again["outputs"] == {"text": "GREEN kettle"}
    assert again["run"] != name
    assert [line for line in lines.splitlines() if '"table": "run"' in line] != []
    assert "2 runs are removed." in gone.stderr
    assert found(client) == []
