"""The list of runs, searched and filtered by the server: for the API and for commands alike."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from typing import Any

import httpx2
import pytest

from hearth.service.state import StateDir
from pipecatapp.workflow import Ledger
from pipecatapp.workflow.ledger import schema
from tests.integration.agent.conftest import House, follow
from tests.integration.agent.test_cli import Hearth, announce, command
from tests.integration.agent.test_owners import CHAT, behalf

TEAPOT = """id: teapot
inputs: {text: text}
steps: [{id: said, use: value, with: {value: "{{ inputs.text | upper }} kettle"}}]
outputs: {text: "{{ said.value }}"}
"""


@pytest.fixture
def client(house: House) -> Iterator[httpx2.Client]:
    """Calls the agent service with the key of people."""
    with house.client() as client:
        yield client


def run(client: httpx2.Client, text: str, **more: Any) -> str:
    """A run of the agent that has ended, or of what `more` names."""
    body = {"inputs": {"text": text}, **({} if "document" in more else {"workflow": "agent-turn"})}
    name = str(client.post("/api/runs", json=body | more).raise_for_status().json()["run"])
    with client.stream("GET", f"/api/runs/{name}/events") as events:
        follow(events)
    return name


def found(client: httpx2.Client, **query: Any) -> list[str]:
    """The ids of the runs that a query fits."""
    headers = query.pop("headers", {})
    answer = client.get("/api/runs", params=query, headers=headers).raise_for_status()
    return [one["id"] for one in answer.json()["runs"]]


@pytest.mark.proves("004-23")
def test_runs_are_found_by_words_of_request_answer_error_workflow_and_id(
    house: House, client: httpx2.Client
) -> None:
    """People remember a word of the answer as often as one of their question."""
    house.model.when("stove").say("Gusseisen hält die Wärme.")
    house.model.when("bad").refuse(400, "No such oven.")
    stove, bad = run(client, "What of the stove?"), run(client, "A bad idea")
    teapot = run(client, "green", document=TEAPOT)

    assert found(client, text="stove") == [stove]
    assert found(client, text="warme gusseis") == [stove], "without accents, by beginnings"
    assert found(client, text="stove oven") == [], "every word counts"
    assert found(client, text="such oven") == [bad]
    assert found(client, text="teapot") == found(client, text="green KETTLE") == [teapot]
    assert found(client, text=stove[:20]) == [bad, stove][-1:]
    assert found(client, text='"stove" OR NOT ( *') == []
    assert found(client, text='- * "') == [teapot, bad, stove], "no word to look for"


@pytest.mark.proves("004-23")
def test_runs_are_filtered_by_status_workflow_person_caller_and_date(
    house: House, client: httpx2.Client
) -> None:
    """After a month there are thousands; each filter narrows what the others leave."""
    house.model.when("bad").refuse(400, "No.")
    one, bad = run(client, "one"), run(client, "bad")
    teapot = run(client, "two", document=TEAPOT)
    said = {"model": "agent", "messages": [{"role": "user", "content": "a child asks"}]}
    said["conversation"] = "homework"
    client.post(CHAT, json=said, headers=behalf("child")).raise_for_status()
    (child,) = found(client, text="child asks")
    start = {name: client.get(f"/api/runs/{name}").json()["started"] for name in (one, teapot)}

    assert found(client, status="failed") == [bad]
    assert found(client, workflow="teapot") == [teapot]
    assert found(client, conversation="homework") == [child]
    assert found(client, conversation="nobody's") == []
    assert found(client, person="child") == found(client, caller="chat") == [child]
    assert found(client, since=start[teapot]) == [child, teapot]
    assert found(client, until=start[teapot]) == [bad, one]
    assert found(client, since=start[one], until=start[teapot], status="done") == [one]
    assert found(client, workflow="agent-turn", text="bad", status="done") == []
    assert client.get("/api/runs/choices").json() == {
        "workflows": ["agent-turn", "teapot"], "callers": ["api", "chat"], "people": ["child"],
    }  # fmt: skip
    assert client.get("/api/runs", params={"since": "soon"}).status_code in (400, 422)
    assert client.get("/api/runs", params={"colour": "red"}).status_code in (400, 422)


def test_pages_of_a_filtered_list_hold_every_run_once(client: httpx2.Client) -> None:
    """A run that starts while somebody scrolls must not push another off the pages."""
    names = [run(client, f"green {n}" if n % 2 else f"milk {n}", document=TEAPOT) for n in range(9)]
    first = client.get("/api/runs", params={"limit": 2, "text": "green"}).json()
    run(client, "green again", document=TEAPOT)
    pages, page = first["runs"], first
    while page["next"]:
        query = {"limit": 2, "text": "green", "before": page["next"]}
        page = client.get("/api/runs", params=query).json()
        pages += page["runs"]

    assert [one["id"] for one in pages] == [names[n] for n in (7, 5, 3, 1)]


def test_key_of_a_person_finds_and_reads_only_runs_of_its_own(
    house: House, client: httpx2.Client
) -> None:
    """The search must not become a way around what conversations keep apart."""
    mine = run(client, "a secret of the house")
    said = [{"role": "user", "content": "a secret of the child"}]
    talk = {"model": "agent", "messages": said, "conversation": "homework"}
    client.post(CHAT, json=talk, headers=behalf("child")).raise_for_status()
    client.post(CHAT, json=talk).raise_for_status()
    child = [name for name in found(client, text="secret") if name != mine]
    fork = str(client.post(f"/api/runs/{child[0]}/fork", json={}).json()["run"])
    theirs = behalf("child")
    reads = [f"/api/runs/{mine}{more}" for more in ("", "/events", "/export", "/changes")]
    reads.append(f"/api/runs/{child[0]}/compare?with={mine}")

    assert len(child) == 2, "also what the built-in key says in their conversation"
    assert found(client, text="secret", headers=theirs) == [fork, *child]
    assert found(client, person="key", headers=theirs) == []
    assert client.get("/api/runs/choices", headers=theirs).json()["people"] == ["child"]
    for path in reads:
        refused = client.get(path, headers=theirs)
        assert (refused.status_code, refused.json()["error"]["code"]) == (404, "run_not_found")
    assert client.get(f"/api/runs/{child[0]}", headers=theirs).status_code == 200
    assert client.get(reads[0]).status_code == 200


def test_runs_that_are_removed_or_imported_leave_and_enter_the_search(
    client: httpx2.Client,
) -> None:
    """A word of something deleted must not be found any more."""
    name = run(client, "a teapot to forget", document=TEAPOT)
    lines = client.get(f"/api/runs/{name}/export").text
    client.post("/api/runs/prune", json={"days": 0, "keep": 0}).raise_for_status()
    gone = found(client, text="forget")
    client.post("/api/runs/import", content=lines.encode()).raise_for_status()

    assert gone == []
    assert found(client, text="forget KETTLE") == [name]


def test_large_and_odd_values_are_kept_though_not_all_is_searched(client: httpx2.Client) -> None:
    """What a search cannot read must never keep a run from ending."""
    deep: Any = "bottom"
    for _ in range(1200):
        deep = [deep]
    text = "id: odd\ninputs: {text: any}\nsteps: [{id: a, use: value, with: {value: 1}}]\n"
    text += 'outputs: {text: "{{ inputs.text }}"}\n'
    names = [
        run(client, "", document=text, inputs={"text": value})
        for value in ("word " * 5000, "x" * 3_000_000, "data:image/png;base64,abc", "half 😀 \0")
    ]
    status = {name: client.get(f"/api/runs/{name}").json()["status"] for name in names}

    assert set(status.values()) == {"done"}
    assert found(client, text="word") == [names[0]]
    assert found(client, text="base64") == []
    assert found(client, text="half") == [names[3]]


def test_command_finds_what_the_api_finds(
    house: House, client: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One search for the shell, programs and the page."""
    announce(house)
    hearth: Hearth = command(house, monkeypatch)
    one, _ = run(client, "green tea", document=TEAPOT), run(client, "milk", document=TEAPOT)
    yesterday = (datetime.now().astimezone() - timedelta(days=1)).date().isoformat()

    words = ("--text", "green", "--status", "done", "--workflow", "teapot", "--caller", "api")
    listed = json.loads(hearth("runs", "list", *words, "--json").stdout)
    dated = hearth("runs", "list", "--since", "2020-01-01", "--until", "2020-12-31")

    assert [each["id"] for each in listed["runs"]] == [one]
    assert "No matching runs." in dated.stdout
    assert one in hearth("runs", "list", "--since", yesterday).stdout
    assert "is not a valid date" in hearth("runs", "list", "--since", "soon").stderr


@pytest.mark.parametrize(
    ("query", "index"),
    [
        ("status = 'failed'", "run_filters"),
        ("workflow = 'teapot' AND caller = 'api' AND started >= '2026'", "run_filters"),
        ("owner = 'child' AND id < '01'", "run_filters"),
        (
            "id IN (SELECT run_text.run FROM run_fts JOIN run_text"
            " ON run_text.number = run_fts.rowid WHERE run_fts MATCH 'tea')",
            "run_fts VIRTUAL TABLE",
        ),
    ],
)
def test_search_reads_an_index_and_not_the_runs_themselves(
    empty_house: House, query: str, index: str
) -> None:
    """A row of a run holds its inputs and outputs; reading 5,000 of them takes too long."""
    ledger = StateDir(empty_house.state).ledger
    with closing(Ledger(ledger)), closing(sqlite3.connect(ledger)) as db:
        plan = db.execute(
            f"EXPLAIN QUERY PLAN SELECT id FROM run WHERE {query} ORDER BY id DESC LIMIT 41"
        ).fetchall()

    told = " / ".join(row[3] for row in plan)
    assert index in told
    assert "USING INDEX" not in told.replace("COVERING INDEX", "")


def test_runs_of_a_ledger_from_before_are_found(empty_house: House) -> None:
    """Years of history must not vanish from the search with an update."""
    ledger = StateDir(empty_house.state).ledger
    schema.prepare(ledger, patience=1, migrations=schema.MIGRATIONS[:8])
    insert = """INSERT INTO run (id, workflow, status, conversation, caller, started, ended, title,
        request, plan, inputs, outputs) VALUES (?, 'old', 'done', ?, 'api', '2025', '2025', 'Tea',
        ?, '{}', '{}', ?)"""
    with closing(sqlite3.connect(ledger)) as old:
        old.execute("INSERT INTO conversation VALUES ('c', 'Tea', '2025', '2025', 'child')")
        old.execute("INSERT INTO blob VALUES ('ab', 9, CAST('\"a samovar\"' AS BLOB))")
        old.execute(insert, ("01A", "c", '"green tea"', None))
        old.execute(insert, ("01B", None, "@sha256:ab", '{"text": ["a saucer", {"of": "milk"}]}'))
        old.commit()

    with closing(Ledger(ledger)) as now:
        texts = ("green", "samovar milk", "old", "milk tea")
        assert [[one.id for one in now.read.runs(limit=9, text=text)] for text in texts] == [
            ["01A"], ["01B"], ["01B", "01A"], [],
        ]  # fmt: skip
        assert [one.owner for one in now.read.runs(limit=9)] == ["", "child"]


COMPARED = """id: pair
inputs: {word: text}
steps:
  - {id: same, use: value, with: {value: 1}}
  - {id: said, use: llm, with: {text: "Say {{ inputs.word }}", temperature: 0}}
  - {id: size, use: value, with: {value: "{{ said.text | length }}"}}
  - {id: loud, use: value, with: {value: "{{ said.text | upper }}"}}
outputs: {text: "{{ loud.value }}", size: "{{ size.value }}"}
"""


def difference(client: httpx2.Client, before: str, after: str) -> dict[str, Any]:
    path = f"/api/runs/{before}/compare"
    found: dict[str, Any] = client.get(path, params={"with": after}).raise_for_status().json()
    return found


def test_comparison_names_the_first_step_with_another_key_and_the_field_of_it(
    house: House, client: httpx2.Client
) -> None:
    """Of forty steps that differ, one is the cause; a person should not have to look for it."""
    house.model.when("Say").say("Pots.")
    tea = run(client, "", document=COMPARED, inputs={"word": "tea"})
    milk = run(client, "", document=COMPARED, inputs={"word": "milk"})
    other = COMPARED.replace("upper", "lower").replace("with: {value: 1}", "with: {value: 2}")
    edited = run(client, "", document=other, inputs={"word": "tea"})
    by_input, by_document = difference(client, tea, milk), difference(client, tea, edited)

    assert by_input["first"] == {
        "path": "said", "fields": ["input messages"],
        "values": {"messages": [
            [{"role": "user", "content": f"Say {word}"}] for word in ("tea", "milk")
        ]},
    }  # fmt: skip
    assert by_input["document"] == []
    assert by_input["drifted"] is None
    assert [step["path"] for step in by_input["steps"]] == ["said"], "the outputs are the same"
    assert by_document["first"] == {
        "path": "same", "fields": ["input value"], "values": {"value": [1, 2]},
    }  # fmt: skip
    assert by_document["document"] == [
        {"path": "same", "field": "with.value", "before": 1, "after": 2},
        {
            "path": "loud", "field": "with.value",
            "before": "{{ said.text | upper }}", "after": "{{ said.text | lower }}",
        },
    ]  # fmt: skip
    assert by_document["runs"][1]["outputs"] == {"text": "pots.", "size": 5}
    assert by_document["runs"][0]["tokens"]["completion"] > 0


def test_comparison_names_a_step_that_gave_another_output_for_the_same_key(
    house: House, client: httpx2.Client
) -> None:
    """A model that answers differently is no change of the document."""
    house.model.when("Say").say("Cups.").say("Saucers and spoons.")
    text = COMPARED.replace(", temperature: 0", "")
    runs = [run(client, "", document=text, inputs={"word": "tea"}) for _ in range(2)]

    found = difference(client, *runs)

    assert found["drifted"] == "said"
    assert found["first"]["path"] == "size"
    assert found["first"]["fields"] == ["input value"]
    assert found["same"] == 1


def test_command_compares_as_the_api_does(
    house: House, client: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a terminal, too, the cause comes first."""
    announce(house)
    hearth = command(house, monkeypatch)
    runs = [run(client, "", document=COMPARED, inputs={"word": word}) for word in ("tea", "milk")]

    shown = hearth("runs", "compare", *runs).stdout

    assert "The first step with another key is said: input messages." in shown
    assert "3 steps are alike." in shown or "steps are alike." in shown
