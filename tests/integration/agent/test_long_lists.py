"""Lists of the shell that are longer than their limit: they say so, and how to see the rest."""

import json
import sqlite3
from contextlib import closing

import pytest

from tests.integration.agent.conftest import House
from tests.integration.agent.test_cli import Hearth, announce, command

FIX = {
    "language": "Python",
    "pattern": "NameError",
    "edit": [{"path": "p.py", "symbol": "f", "lines": ["-    a", "+    b"]}],
    "at": "2026-01-01T00:00:00+00:00",
    "asked": 1,
    "applied": 1,
    "green": 1,
}

TASK = """about: Nothing.
steps: [{id: a, use: value, with: {value: 1}}]
outputs: {a: "{{ a.value }}"}
"""


@pytest.fixture
def hearth(house: House, monkeypatch: pytest.MonkeyPatch) -> Hearth:
    announce(house)
    return command(house, monkeypatch)


def test_list_of_fixes_says_how_many_there_are(house: House, hearth: Hearth) -> None:
    """In JSON, as a number; in the shell, beside the table and not in it."""
    fixes = [FIX | {"signature": f"NameError {number}"} for number in range(620)]
    with house.client() as client:
        client.post("/api/fixes/import", json={"format": 1, "fixes": fixes}).raise_for_status()

        few, most = hearth("fixes", "list"), hearth("fixes", "list", "--limit", "500")
        one = hearth("fixes", "list", "--search", "619")
        page = json.loads(hearth("fixes", "list", "--json", "--limit", "3").stdout)

    assert len(few.stdout.splitlines()) == 1 + 50
    search = "--search, or print all with `hearth fixes export`."
    assert (
        few.stderr == f"50 of 620 fixes are shown. Raise --limit or narrow the list with {search}\n"
    )
    assert most.stderr == f"500 of 620 fixes are shown. Narrow the list with {search}\n"
    assert one.stderr == ""
    assert (len(page["fixes"]), page["total"]) == (3, 620)


def test_lists_of_conversations_tasks_and_runs_say_that_they_end_early(
    house: House, hearth: Hearth
) -> None:
    """Each names the option that leads to the rest."""
    with closing(sqlite3.connect(house.state / "ledger.db")) as db, db:
        talk = "INSERT INTO conversation (id, title, created, updated) VALUES (?, 'Tea', '', ?)"
        db.executemany(talk, [(f"c-{number}", str(number)) for number in range(3)])
    with house.client() as client:
        for number in range(3):
            task = f"kind: workflow\nid: t-{number}\ntags: [a]\n{TASK}"
            client.post("/api/tasks", json={"document": task}).raise_for_status()
        runs = [client.post("/api/tasks/t-0/runs", json={}).json()["run"] for _ in range(3)]

        talks = hearth("conversations", "list", "--limit", "2", "--text", "tea")
        tasks = hearth("tasks", "--limit", "2")
        listed = hearth("runs", "list", "--limit", "2")
        rest = hearth("runs", "list", "--before", runs[1])

    assert (
        "2 of 3 conversations are shown. Raise --limit or narrow the list with --text."
        in talks.stderr
    )
    assert (
        "2 of 3 tasks are shown. Raise --limit or narrow the list with --search or --tag."
        in tasks.stderr
    )
    assert listed.stderr == f"Older runs are not shown. List them with --before {runs[1]}.\n"
    assert runs[0] in rest.stdout
    assert rest.stderr == ""
