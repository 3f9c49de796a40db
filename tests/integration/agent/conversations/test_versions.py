"""Versions of a turn, branches and pinned conversations, on a real agent service."""

import json

import httpx2
import pytest

from tests.integration.agent.conftest import House
from tests.integration.agent.conversations.test_history import told
from tests.integration.agent.conversations.test_management import found, talk
from tests.integration.agent.conversations.test_turns import Json, ended, shown
from tests.integration.agent.test_owners import behalf


def again(client: httpx2.Client, name: str, run: str, **more: str) -> str:
    """Answer a turn once more, or another question instead; gives the run."""
    body = {"instead_of": run, **more}
    answer = client.post(f"/api/conversations/{name}/turns", json=body)
    assert answer.status_code == 201, answer.text
    ended(client, version := str(answer.json()["run"]))
    return version


def show(client: httpx2.Client, name: str, run: str) -> None:
    client.patch(f"/api/conversations/{name}", json={"shown": run}).raise_for_status()


def branch(client: httpx2.Client, name: str, run: str) -> str:
    """Create a conversation that begins as another one; gives its id."""
    answer = client.post(f"/api/conversations/{name}/branch", json={"run": run})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def users(turns: list[Json]) -> list[str]:
    return [turn["user"] for turn in turns]


def runs(turns: list[Json]) -> list[str]:
    return [turn["run"] for turn in turns]


def test_edited_question_replaces_its_turn_and_what_followed(house: House) -> None:
    """The model answers the edited one, and knows neither the first one nor what came after."""
    with house.client() as client:
        first, second, third = talk(client, "c-1", "one", "two", "three")
        edited = again(client, "c-1", second, text="two, but shorter")
        to_model = told(house)
        turns = shown(client, "c-1")

        assert to_model == ["one", "one", "two, but shorter"]
        assert runs(turns) == [first, edited]
        assert turns[1]["versions"] == [second, edited]
        show(client, "c-1", second)
        assert runs(shown(client, "c-1")) == [first, second, third]
        talk(client, "c-1", "four")
        assert told(house) == ["one", "one", "two", "two", "three", "three", "four"]
        show(client, "c-1", edited)
        talk(client, "c-1", "five")
        assert users(shown(client, "c-1")) == ["one", "two, but shorter", "five"]


def test_answer_is_given_once_more_and_all_versions_are_reachable(house: House) -> None:
    """A question is asked again as it was; the first question of a conversation, too."""
    with house.client() as client:
        [first] = talk(client, "c-1", "one")
        house.model.when("one").say("Another answer.")
        second = again(client, "c-1", first)
        third = again(client, "c-1", second)
        [turn] = shown(client, "c-1")

        assert (turn["run"], turn["user"], turn["assistant"]) == (third, "one", "Another answer.")
        assert turn["versions"] == [first, second, third]
        assert told(house) == ["one"]
        newer = shown(client, "c-1", after=third)
        other_path = shown(client, "c-1", after=first)
    assert newer == []
    assert runs(other_path) == [third]


def test_fork_of_a_turns_run_is_another_version_of_it(house: House) -> None:
    """A run that is repeated from a step does not ask the same question a second time; the turns
    after it stay shown."""
    with house.client() as client:
        first, second = talk(client, "c-1", "one", "two")
        forks = []
        for run in (first, second):
            answer = client.post(f"/api/runs/{run}/fork", json={"at": "reply"}).raise_for_status()
            forks.append(str(answer.json()["run"]))
            ended(client, forks[-1])
        turns = shown(client, "c-1")

    assert runs(turns) == [first, forks[1]]
    assert [turn["versions"] for turn in turns] == [[first, forks[0]], [second, forks[1]]]


def test_export_has_the_versions_that_are_not_shown(house: House) -> None:
    """What a person wrote is theirs, also when they asked something else instead."""
    with house.client() as client:
        first, second = talk(client, "c-1", "one", "two")
        again(client, "c-1", first, text="uno")
        path = "/api/conversations/c-1/export"
        content = client.get(path, params={"format": "json"}).json()
        text = client.get(path).text

    assert users(content["turns"]) == ["uno"]
    assert runs(content["other_versions"]) == [first, second]
    assert content["other_versions"][1]["previous"] == first
    shown_part, others = text.split("# Other versions\n")
    assert "uno" in shown_part
    assert "two" not in shown_part
    assert others.index("one") < others.index("two")


def test_branch_begins_with_the_turns_up_to_a_run_and_goes_its_own_way(house: House) -> None:
    """The model knows what was said before; neither conversation has the turns of the other."""
    with house.client() as client:
        first, second, _ = talk(client, "c-1", "one", "two", "three")
        new = branch(client, "c-1", second)
        begun = client.get(f"/api/conversations/{new}").json()
        talk(client, new, "and then?")
        to_model = told(house)
        turns, old = shown(client, new), shown(client, "c-1")
        edited = again(client, new, second, text="two in the branch")
        after_edit = shown(client, new)
        words = found(client, "two")

    assert (begun["title"], runs(begun["turns"])) == ("one (branch)", [first, second])
    assert to_model == ["one", "one", "two", "two", "and then?"]
    assert users(turns) == ["one", "two", "and then?"]
    assert users(old) == ["one", "two", "three"]
    assert runs(after_edit) == [first, edited]
    assert after_edit[1]["versions"] == [second, edited]
    assert set(words) == {"c-1", new}


@pytest.mark.parametrize("removed", ["c-1", "branch"])
def test_deleted_conversation_leaves_what_its_branch_shows(house: House, removed: str) -> None:
    """A conversation that is deleted takes nothing out of another one."""
    with house.client() as client:
        first, second, third = talk(client, "c-1", "one", "two", "three")
        new = branch(client, "c-1", second)
        own = talk(client, new, "mine")
        gone, stays = ("c-1", new) if removed == "c-1" else (new, "c-1")
        answer = client.delete(f"/api/conversations/{gone}").raise_for_status().json()
        left = runs(shown(client, stays))
        listed = {run["id"] for run in client.get("/api/runs").json()["runs"]}
        missing = client.get(f"/api/conversations/{gone}")

    kept = [first, second, *own] if removed == "c-1" else [first, second, third]
    assert (answer["runs"], missing.status_code) == (1, 404)
    assert left == kept
    assert listed == set(kept)


def test_removed_run_leaves_the_turns_around_it_in_their_order(house: House) -> None:
    """One turn is deleted on the page of runs, others are pruned; the rest stays a conversation."""
    with house.client() as client:
        first, second, third, fourth = talk(client, "c-1", "one", "two", "three", "four")
        new = branch(client, "c-1", third)
        for run in (second, third):
            client.delete(f"/api/runs/{run}").raise_for_status()
        talk(client, "c-1", "five")
        turns = shown(client, "c-1")
        in_branch = shown(client, new)
        client.post("/api/runs/prune", json={"days": 0, "keep": 1}).raise_for_status()
        left = shown(client, "c-1")
        gone = client.get(f"/api/conversations/{new}")

    assert runs(turns)[:2] == [first, fourth]
    assert told(house) == ["one", "one", "four", "four", "five"]
    assert runs(in_branch) == [first]
    assert users(left) == ["five"]
    assert gone.status_code == 404


def test_exported_runs_keep_their_order_and_versions_where_they_are_imported(
    house: House,
) -> None:
    """A conversation moves with its runs; an older export, without their places, is one line."""
    with house.client() as client:
        first, second = talk(client, "c-1", "one", "two")
        edited = again(client, "c-1", second, text="two, edited")
        ids = [first, second, edited]
        lines = client.post("/api/runs/export", json={"runs": ids}).text
        older = "".join(
            f"{json.dumps({k: v for k, v in json.loads(line).items() if k != 'previous'})}\n"
            for line in lines.splitlines()
        )
        seen = []
        for exported in (lines, older):
            client.delete("/api/conversations/c-1").raise_for_status()
            client.post("/api/runs/import", content=exported).raise_for_status()
            seen.append([turn["versions"] for turn in shown(client, "c-1")])

    assert seen == [[[first], [second, edited]], [[first], [second], [edited]]]


def test_pinned_conversation_is_listed_first_until_it_is_unpinned(house: House) -> None:
    """What a person returns to every day is not searched for every day."""
    with house.client() as client:
        for name in ("c-1", "c-2", "c-3"):
            talk(client, name, "hello")
        pinned = client.patch("/api/conversations/c-1", json={"pinned": True}).json()
        first = found(client)
        client.patch("/api/conversations/c-1", json={"pinned": False}).raise_for_status()
        last = found(client)

    assert pinned["pinned"] is True
    assert (first, last) == (["c-1", "c-3", "c-2"], ["c-3", "c-2", "c-1"])


@pytest.mark.parametrize(
    ("path", "body", "method"),
    [
        ("/turns", {"instead_of": "OTHER"}, "POST"),
        ("/turns", {"instead_of": "nosuch", "text": "x"}, "POST"),
        ("/branch", {"run": "OTHER"}, "POST"),
        ("", {"shown": "OTHER"}, "PATCH"),
    ],
)
def test_turn_of_another_conversation_is_refused(
    house: House, path: str, body: Json, method: str
) -> None:
    """A run that is named must be a turn of the conversation that is named."""
    with house.client() as client:
        talk(client, "c-1", "one")
        [other] = talk(client, "c-2", "two")
        sent = {key: other if value == "OTHER" else value for key, value in body.items()}
        answer = client.request(method, f"/api/conversations/c-1{path}", json=sent)

    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "turn_not_found"


def test_other_keys_neither_see_nor_branch_a_conversation(house: House) -> None:
    """A branch of a person's conversation is theirs, also when the owner of the house made it."""
    child, guest = behalf("child"), behalf("guest")
    with house.client() as client:
        answer = client.post("/api/conversations/c-1/turns", json={"text": "one"}, headers=child)
        ended(client, run := str(answer.json()["run"]))
        refused = [
            client.post("/api/conversations/c-1/branch", json={"run": run}, headers=guest),
            client.patch("/api/conversations/c-1", json={"pinned": True}, headers=guest),
            client.post("/api/conversations/c-1/turns", json={"instead_of": run}, headers=guest),
        ]
        new = branch(client, "c-1", run)
        read = client.get(f"/api/conversations/{new}", headers=child)
        unread = client.get(f"/api/conversations/{new}", headers=guest)

    assert [one.status_code for one in refused] == [404, 404, 404]
    assert users(read.json()["turns"]) == ["one"]
    assert unread.status_code == 404


@pytest.mark.parametrize("body", [{}, {"model": "agent"}, {"text": ""}])
def test_turn_that_says_nothing_is_refused(house: House, body: Json) -> None:
    """There is nothing to answer."""
    with house.client() as client:
        answer = client.post("/api/conversations/c-1/turns", json=body)

    assert answer.status_code == 400
