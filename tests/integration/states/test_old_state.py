"""State directories that earlier versions made: this version opens, migrates and goes on with them.

`__main__.py` beside this file says how one is made for the next format.
"""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import httpx2
import pytest

from hearth.service.state import StateDir
from moe_gateway.keys.store import KeyStore
from pipecatapp.workflow.ledger.schema import MIGRATIONS, connect
from tests.integration.agent.conftest import House, ScriptedGateway, Serve
from tests.integration.gateway.conftest import Lab, caller, chat
from tests.integration.states.__main__ import (
    APPROVE,
    FIX,
    LONG,
    PEOPLE,
    POLITE,
    TASK,
    answer,
    end,
    post,
)
from tests.support.archives import unpack

Json = dict[str, Any]
ARCHIVES = sorted(Path(__file__).parent.glob("ledger-*.tar.gz"))


@pytest.fixture(params=ARCHIVES, ids=[file.name.partition(".")[0] for file in ARCHIVES])
def house(request: pytest.FixtureRequest, tmp_path: Path, serve: Serve) -> House:
    """The agent service on a copy of an old state directory; it is not started."""
    unpack(request.param, tmp_path / "state")
    model = ScriptedGateway()
    model.when(lambda _request: True).say("Other words.")
    return House(tmp_path / "state", model, serve(model.app), key=PEOPLE)


@pytest.fixture
def client(house: House) -> Iterator[httpx2.Client]:
    """A caller of the agent service, which runs."""
    with house.running(), house.client() as client:
        yield client


def views(client: httpx2.Client) -> list[Json]:
    """Every run with its steps, the oldest first."""
    listed = client.get("/api/runs", params={"limit": 500}).raise_for_status().json()["runs"]
    return [view(client, one["id"]) for one in reversed(listed)]


def view(client: httpx2.Client, run: str) -> Json:
    found: Json = client.get(f"/api/runs/{run}").raise_for_status().json()
    return found


def of(client: httpx2.Client, status: str) -> Json:
    """The only run about a topic that has this status."""
    (found,) = (
        one for one in views(client) if one["status"] == status and "topic" in one["inputs"]
    )
    return found


def statuses(run: Json) -> dict[str, str]:
    return {step["path"]: step["status"] for step in run["steps"]}


def get(client: httpx2.Client, path: str, **asked: Any) -> Any:
    return client.get(path, params=asked).raise_for_status().json()


def test_old_runs_keep_their_status_steps_and_values(client: httpx2.Client) -> None:
    """History is why there is a ledger: an update must not cost a line of it."""
    bees, fork, ants, cats, keep, dogs, first, second, rest = views(client)

    assert [one["workflow"] for one in (bees, keep, first, rest)] == [
        "approve", "keep", "chat", "rest",
    ]  # fmt: skip
    assert [one["status"] for one in (bees, fork, ants, cats, keep, dogs, first, second)] == [
        "done", "done", "failed", "cancelled", "done", "waiting", "done", "done",
    ]  # fmt: skip
    approved = {"answer": "publish", "by": "api", "title": "BEES", "text": LONG}
    assert (bees["inputs"], bees["outputs"], fork["outputs"]) == (
        {"topic": "bees"}, approved, approved,
    )  # fmt: skip
    assert statuses(bees) == {"draft": "done", "ask": "done", "title": "done"}
    assert "Please write about bees." in str(bees["steps"][0]["input"])
    assert bees["tokens"]["prompt"] > 0
    assert bees["graph"]["nodes"]
    assert fork["forked"] == bees["id"]
    assert fork["steps"][0]["facts"]["cached"] == {"run": bees["id"], "path": "draft"}
    assert "Nobody" in ants["error"]
    assert statuses(ants) == {"draft": "done", "ask": "failed"}
    assert statuses(cats) == {"draft": "done", "ask": "cancelled"}
    assert keep["outputs"] == {"new": ["one", "two"]}


def test_old_run_that_waits_for_a_person_is_answered_and_ends(
    house: House, client: httpx2.Client
) -> None:
    """The question stays open over the update, and the answer and the note count."""
    dogs = of(client, "waiting")
    answer(client, dogs["id"], "publish")
    ended = view(client, dogs["id"])

    assert statuses(dogs) == {"draft": "done", "ask": "waiting"}
    assert dogs["steps"][1]["facts"]["question"]["choices"] == ["publish", "drop"]
    assert statuses(ended) == {"draft": "done", "ask": "done", "title": "done"}
    assert (ended["status"], ended["outputs"]) == (
        "done", {"answer": "publish", "by": "api", "title": "DOGS", "text": "Words."},
    )  # fmt: skip
    with client.stream("GET", f"/api/runs/{dogs['id']}/events") as events:
        assert "Mind the leash." in events.read().decode()


def test_old_runs_are_found_by_their_words(client: httpx2.Client) -> None:
    """A search that knows only what came after the update has no history."""
    found = {
        text: [one["workflow"] for one in get(client, "/api/runs", text=text)["runs"]]
        for text in ("name is Ada", "small bee", "dogs")
    }

    assert found == {
        "name is Ada": ["chat", "chat"],
        "small bee": ["approve", "approve"],
        "dogs": ["approve"],
    }


def test_old_run_that_was_interrupted_goes_on(client: httpx2.Client) -> None:
    """Stopping the service for the update must not lose the work under way."""
    (rest,) = (one["id"] for one in views(client) if one["workflow"] == "rest")
    end(client, rest)
    ended = view(client, rest)

    assert (ended["status"], ended["outputs"]) == ("done", {"text": "Other words."})
    assert statuses(ended)["pause/begin"] == "done"


def test_old_results_are_taken_over_by_a_new_fork(house: House, client: httpx2.Client) -> None:
    """The cache is worth the tokens that filled it."""
    bees = views(client)[0]
    fork = str(post(client, f"/api/runs/{bees['id']}/fork")["run"])
    end(client, fork)

    assert view(client, fork)["outputs"] == bees["outputs"]
    assert [one for one in house.model.requests if "bees" in str(one.body)] == []


def test_old_library_is_there(client: httpx2.Client) -> None:
    """What people wrote stays as they wrote it."""
    document = get(client, "/api/workflows/approve/document")
    prompt = get(client, "/api/prompts/verse")
    task = get(client, "/api/tasks/review-of-tea")
    schedule = get(client, "/api/schedules/nightly")
    planned = post(client, "/api/plan", workflow="approve", layers=["polite"])

    assert (document["document"], document["kept"]) == (APPROVE, True)
    assert get(client, "/api/layers/polite")["document"] == POLITE
    assert "Please write about" in str(planned["graph"]) + planned["text"]
    assert (prompt["tags"], prompt["text"].strip()) == (["poem"], "Write in verse.")
    assert (task["versions"], task["document"]) == ([2, 1], TASK.format(about="Reviews any tea."))
    assert [one["id"] for one in get(client, "/api/tasks", q="reviewing tea")["tasks"]] == [
        "review-of-tea"
    ]
    assert (schedule["paused"], schedule["cron"], schedule["zone"], schedule["inputs"]) == (
        True, "30 3 * * *", "Europe/Oslo", {"topic": "owls"},
    )  # fmt: skip
    assert get(client, "/api/projects/garden")["values"]["vision"] == "A garden for bees."


def test_old_conversation_notes_and_handled_items_are_remembered(client: httpx2.Client) -> None:
    """A house that forgets whom it talked with is a new one."""
    (listed,) = get(client, "/api/conversations")["conversations"]
    page = get(client, f"/api/conversations/{listed['id']}")
    found = "id: f\nsteps: [{id: a, use: note.find, with: {query: bees}}]\n"
    found += 'outputs: {notes: "{{ a.notes }}"}\n'
    runs = [
        str(post(client, "/api/runs", **body)["run"])
        for body in ({"document": found}, {"workflow": "keep", "inputs": {"topic": "Ants"}})
    ]
    for run in runs:
        end(client, run)
    notes, again = (view(client, run)["outputs"] for run in runs)

    assert listed["title"] == "My name is Ada."
    assert [(turn["user"], turn["assistant"]) for turn in page["turns"]] == [
        ("My name is Ada.", "Words."), ("What is my name?", "Words."),
    ]  # fmt: skip
    assert [note["text"] for note in notes["notes"]] == ["Bees make honey"]
    assert again == {"new": []}


def test_old_fixes_counts_of_answers_and_pins_are_kept(house: House, client: httpx2.Client) -> None:
    """Formats before 12 did not store them."""
    asked = "id: c\nsteps: [{id: a, use: code.approach, with: {model: small}}]\n"
    asked += 'outputs: {asked: "{{ a.asked }}"}\n'
    run = str(post(client, "/api/runs", document=asked)["run"])
    end(client, run)
    fixes = get(client, "/api/fixes/export")["fixes"]
    (listed,) = get(client, "/api/conversations")["conversations"]

    is_new = house_format(house) >= 12
    assert fixes == ([FIX] if is_new else [])
    assert bool(listed["pinned"]) is is_new
    assert view(client, run)["outputs"] == {"asked": 1 if is_new else 0}


def test_old_keys_open_the_gateway_and_revoked_ones_do_not(house: House, tmp_path: Path) -> None:
    """A phone that has a key goes on; a lost one stays locked out."""
    store = StateDir(house.state).key_store
    kept, revoked = (house.state / "made-keys").read_text(encoding="ascii").split()
    (folder := tmp_path / "gateway").mkdir()
    with ExitStack() as stack:
        lab = Lab(stack, folder)
        gateway = lab.gateway(lab.expert(house.model), key_store=store)
        codes = []
        for key in (kept, revoked):
            with caller(str(gateway.base_url), key) as person:
                codes.append(person.post("/v1/chat/completions", json=chat("Hello.")).status_code)
        listed = {one["name"]: one for one in get(gateway, "/api/keys")["keys"]}

    assert codes == [200, 401]
    assert listed["lost"]["revoked"] is not None
    assert listed["phone"]["scopes"] == ["chat"]
    used = KeyStore(store).usage(listed["phone"]["created"][:10])
    assert used["phone"].requests >= 1


def test_ledger_is_of_the_current_format_and_the_old_one_lies_beside_it(
    house: House, client: httpx2.Client
) -> None:
    """Who has to go back to the version before needs the file that it can read."""
    ledger = StateDir(house.state).ledger
    copies = {
        int(file.suffix.rpartition("-")[2]) for file in house.state.glob("ledger.db.format-*")
    }
    with closing(connect(ledger, patience=5)) as db:
        (now,) = db.execute("PRAGMA user_version").fetchone()

    assert client.get("/health").status_code == 200
    assert now == len(MIGRATIONS)
    assert all(copy < now for copy in copies)
    assert bool(copies) == (house_format(house) < now)


def house_format(house: House) -> int:
    """The format of the copy beside the ledger, else of the ledger itself."""
    copies = list(house.state.glob("ledger.db.format-*"))
    with closing(connect((copies or [StateDir(house.state).ledger])[0], patience=5)) as db:
        return int(db.execute("PRAGMA user_version").fetchone()[0])
