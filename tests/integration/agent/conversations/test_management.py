"""Rename, search, export and delete conversations, on a real agent service."""

import json
import threading

import httpx2
import pytest

from tests.integration.agent.conftest import House
from tests.integration.agent.conversations.test_turns import CAREFUL, Json, add, ended, shown
from tests.integration.agent.test_owners import behalf

CHAT = "/v1/chat/completions"


def found(client: httpx2.Client, text: str = "", *, who: dict[str, str] | None = None) -> list[str]:
    """The ids of the conversations that a search finds."""
    answer = client.get("/api/conversations", params={"text": text}, headers=who)
    return [each["id"] for each in answer.raise_for_status().json()["conversations"]]


def talk(client: httpx2.Client, name: str, *texts: str) -> list[str]:
    """Say something in turn in one conversation; gives the runs."""
    runs = [add(client, name, text) for text in texts]
    for run in runs:
        ended(client, run)
    return runs


def test_new_title_is_kept_when_the_conversation_goes_on(house: House) -> None:
    """A title that a person chose is not replaced by what they say next."""
    with house.client() as client:
        talk(client, "a/b", "hello")
        renamed = client.patch("/api/conversations/a%2Fb", json={"title": " Stove\n manual "})
        talk(client, "a/b", "and now?")
        [listed] = client.get("/api/conversations").json()["conversations"]
        page = client.get("/api/conversations/a%2Fb").json()

    assert renamed.status_code == 200
    assert renamed.json()["title"] == listed["title"] == page["title"] == "Stove manual"
    assert [turn["user"] for turn in page["turns"]] == ["hello", "and now?"]


@pytest.mark.parametrize(
    "body",
    [
        {"title": ""},
        {"title": " \n "},
        {"title": "\u200b"},
        {"title": "x" * 201},
        {"title": "a\x07"},
        {},
    ],
)
def test_title_that_cannot_be_shown_is_refused(house: House, body: Json) -> None:
    """A list with an invisible line in it has a conversation that nobody can open."""
    with house.client() as client:
        talk(client, "c-1", "hello")
        answer = client.patch("/api/conversations/c-1", json=body)
        [listed] = client.get("/api/conversations").json()["conversations"]

    assert answer.status_code == 400
    assert "title" in answer.json()["error"]["message"]
    assert listed["title"] == "hello"


def test_search_finds_titles_and_words_of_any_turn_without_accents(house: House) -> None:
    """A person remembers a word of a talk, not in which message it was, nor how it is accented."""
    house.model.when("tea").say("The café closes at six.")
    with house.client() as client:
        talk(client, "tea", "Where is tea?", "And the invoice?")
        talk(client, "stove", "Light the stove")
        client.patch("/api/conversations/stove", json={"title": "Höfe und Öfen"})
        results = {
            text: found(client, text)
            for text in ("", "cafe", "CAFÉ invoice", "hofe", "ofen stov", "cafe stove", "ofe", "*")
        }
        others = found(client, "cafe", who=behalf("child"))
        limited = client.get("/api/conversations", params={"limit": 1, "text": "the"})
        refused = client.get("/api/conversations", params={"text": "x" * 201})

    assert results == {
        "": ["stove", "tea"],
        "cafe": ["tea"],
        "CAFÉ invoice": ["tea"],
        "hofe": ["stove"],
        "ofen stov": ["stove"],
        "cafe stove": [],
        "ofe": ["stove"],
        "*": [],
    }
    assert others == []
    assert [each["id"] for each in limited.json()["conversations"]] == ["stove"]
    assert refused.status_code == 400


def test_delete_removes_all_runs_of_a_conversation_and_leaves_its_notes(house: House) -> None:
    """Who deletes a talk expects that no search, no page and no model repeats it."""
    note = {"text": "The cat is fed at six."}
    house.model.when("remember").call_tool("note_save", note)
    with house.client() as client:
        runs = talk(client, "c-1", "Tell me of the zebra", "please remember the cat")
        [kept] = talk(client, "c-2", "Another talk")
        gone = client.delete("/api/conversations/c-1")
        again = client.delete("/api/conversations/c-1")
        [left] = client.get("/api/notes").json()["notes"]
        pages = [client.get(f"/api/runs/{run}").status_code for run in (*runs, kept)]
        searched = client.get("/api/runs", params={"text": "zebra"}).json()["runs"]
        listed = found(client)

    assert (gone.status_code, gone.json()) == (200, {"runs": 2, "notes": 1})
    assert again.status_code == 404
    assert again.json()["error"]["code"] == "conversation_not_found"
    assert pages == [404, 404, 200]
    assert (searched, listed) == ([], ["c-2"])
    assert (left["text"], left["source_exists"]) == (note["text"], False)


def test_delete_stops_what_runs_and_what_waits_for_a_person(empty_house: House) -> None:
    """An answer that is on its way would bring the conversation back."""
    (empty_house.state / "workflows").mkdir()
    (empty_house.state / "workflows" / "careful.yaml").write_text(CAREFUL)
    empty_house.model.when("long").say("one two three", held=threading.Event(), held_after=2)
    with empty_house.running(), empty_house.client() as client:
        ended(client, add(client, "c-1", "sure", model="workflow/careful"), until="node.waiting")
        running = add(client, "c-1", "long")
        ended(client, running, until="delta")
        gone = client.delete("/api/conversations/c-1")
        runs = client.get("/api/runs").json()["runs"]
        listed = found(client)

    assert gone.json() == {"runs": 2, "notes": 0}
    assert (runs, listed) == ([], [])
    empty_house.model.wait_until(lambda model: model.aborted == 1)


def test_export_holds_every_turn_with_questions_and_failures(empty_house: House) -> None:
    """What a person takes away must say what was answered, what failed, and what was asked."""
    (empty_house.state / "workflows").mkdir()
    (empty_house.state / "workflows" / "careful.yaml").write_text(CAREFUL)
    empty_house.model.when("good").say("All is **well**.")
    empty_house.model.when("bad").refuse(503, "no expert is healthy")
    with empty_house.running(), empty_house.client() as client:
        talk(client, "c-1", "good", "bad")
        run = add(client, "c-1", "sure", model="workflow/careful")
        ended(client, run, until="node.waiting")
        client.post(f"/api/runs/{run}/answer", json={"path": "sure", "value": "no"})
        ended(client, run)
        client.patch("/api/conversations/c-1", json={"title": 'Höfe: "a/b"'})
        text = client.get("/api/conversations/c-1/export")
        data = client.get("/api/conversations/c-1/export", params={"format": "json"})
        wrong = client.get("/api/conversations/c-1/export", params={"format": "pdf"})
        turns = shown(client, "c-1")

    lines = text.text.splitlines()
    assert text.headers["content-type"].startswith("text/markdown")
    assert text.headers["content-disposition"] == (
        "attachment; filename=\"Hofe-a-b.md\"; filename*=UTF-8''H%C3%B6fe-a-b.md"
    )
    assert lines[0] == '# Höfe: "a/b"'
    assert [line.partition(" (")[0] for line in lines if line.startswith("## ")] == [
        "## You", "## Hearth"
    ] * 3  # fmt: skip
    assert "All is **well**." in lines
    assert "no expert is healthy" in next(line for line in lines if line.startswith("*(failed: "))
    assert lines[lines.index("> Question: Really?") :][:3] == [
        "> Question: Really?", ">", "> Answer: no"
    ]  # fmt: skip
    exported = json.loads(data.text)
    assert data.headers["content-disposition"].startswith('attachment; filename="Hofe-a-b.json"')
    assert (exported["id"], exported["title"], exported["format"]) == ("c-1", 'Höfe: "a/b"', 1)
    assert exported["turns"] == turns
    assert wrong.status_code == 400


def test_other_key_can_neither_rename_nor_delete_nor_export(house: House) -> None:
    """A conversation of somebody else is answered like one that does not exist."""
    said = [{"role": "user", "content": "hello"}]
    body = {"model": "agent", "messages": said, "conversation": "homework"}
    with house.client() as client:
        talk(client, "diary", "a secret")
        client.post(CHAT, json=body, headers=behalf("child")).raise_for_status()
        answers = [
            answer
            for name in ("diary", "none")
            for path in (f"/api/conversations/{name}",)
            for answer in (
                client.patch(path, json={"title": "Mine"}, headers=behalf("child")),
                client.delete(path, headers=behalf("child")),
                client.get(f"{path}/export", headers=behalf("child")),
            )
        ]
        before = client.get("/api/conversations/diary").json()
        mine = client.delete("/api/conversations/homework", headers=behalf("child"))
        listed = found(client)

    assert [answer.status_code for answer in answers] == [404] * 6
    messages = [answer.json()["error"]["message"].replace("diary", "none") for answer in answers]
    assert messages == ["There is no conversation 'none'."] * 6
    assert (before["title"], len(before["turns"])) == ("a secret", 1)
    assert (mine.json()["runs"], listed) == (1, ["diary"])


def test_imported_conversation_can_be_renamed_exported_and_deleted(house: House) -> None:
    """Imported runs have a conversation without a title until a person gives it one."""
    with house.client() as client:
        [run] = talk(client, "c-1", "hello")
        lines = client.get(f"/api/runs/{run}/export").text
        client.delete("/api/conversations/c-1").raise_for_status()
        client.post("/api/runs/import", content=lines).raise_for_status()
        exported = client.get("/api/conversations/c-1/export")
        client.patch("/api/conversations/c-1", json={"title": "Old"}).raise_for_status()
        [listed] = client.get("/api/conversations").json()["conversations"]
        gone = client.delete("/api/conversations/c-1")

    assert exported.text.startswith("# Untitled\n")
    assert 'filename="conversation.md"' in exported.headers["content-disposition"]
    assert listed["title"] == "Old"
    assert gone.json() == {"runs": 1, "notes": 0}
