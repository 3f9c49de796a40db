"""Files, images and settings of the turns of a conversation, on a real agent service."""

import base64
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import httpx2
import pytest

from tests.integration.agent.conftest import House
from tests.integration.agent.conversations.test_turns import Json, ended, shown
from tests.integration.agent.test_owners import behalf

PIXEL = base64.b64encode(
    base64.b64decode(
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
        "gg=="
    )
).decode()
IMAGE = f"data:image/png;base64,{PIXEL}"
PHOTO = {"name": "photo.png", "image": IMAGE}
NOTES = {"name": "notes.md", "text": "Tea at four.\n```\ncode\n```"}


def post(client: httpx2.Client, **body: Any) -> httpx2.Response:
    """Say something in the conversation `c-1`, and wait for the answer."""
    answer = client.post("/api/conversations/c-1/turns", json=body)
    if answer.status_code == 201:
        ended(client, answer.json()["run"])
    return answer


def said(house: House) -> list[Any]:
    """The contents of the messages that the model was sent last, without the first system one."""
    return [one["content"] for one in house.model.requests[-1].body["messages"][1:]]


def page(client: httpx2.Client) -> Json:
    found: Json = client.get("/api/conversations/c-1").raise_for_status().json()
    return found


@pytest.fixture
def seeing(empty_house: House) -> Iterator[House]:
    """A house whose first model reads images; the other one, `blind`, does not."""
    first = empty_house.model.expert | {"vision": True, "context": 8192}
    empty_house.model.experts = [first, {**first, "name": "blind", "model": "b", "vision": False}]
    with empty_house.running():
        yield empty_house


def test_text_file_is_part_of_the_prompt_by_its_name_and_of_the_history(house: House) -> None:
    """The model knows the file also in the next turn; the page shows the message and the name."""
    with house.client() as client:
        post(client, text="When is tea?", attachments=[NOTES])
        [content] = said(house)
        post(client, text="And where?")
        history = said(house)[0]
        turn = shown(client, "c-1")[0]
        file = client.get(f"/api/conversations/c-1/turns/{turn['run']}/attachments/0")
        exported = client.get("/api/conversations/c-1/export").text

    assert [part["text"] for part in content] == [
        "When is tea?",
        "File `notes.md`:\n\n````\nTea at four.\n```\ncode\n```\n````",
    ]
    assert history == "\n\n".join(part["text"] for part in content)
    assert turn["user"] == "When is tea?"
    assert turn["attachments"] == [{"name": "notes.md", "kind": "text"}]
    assert "parts" not in turn
    assert (file.text, file.headers["content-type"]) == (NOTES["text"], "text/plain; charset=utf-8")
    assert "*Attached: notes.md*" in exported


def test_image_reaches_a_model_that_sees_also_as_history_and_when_it_is_asked_again(
    seeing: House,
) -> None:
    """A question about the hat in the picture comes two turns later."""
    with seeing.client() as client:
        post(client, text="What is this?", attachments=[PHOTO])
        [content] = said(seeing)
        post(client, text="Which colour?")
        history = said(seeing)[0]
        turn = shown(client, "c-1")[0]
        image = client.get(f"/api/conversations/c-1/turns/{turn['run']}/attachments/0")
        post(client, instead_of=turn["run"], text="Who is this?")
        [edited] = said(seeing)
        other = client.get(
            f"/api/conversations/c-1/turns/{turn['run']}/attachments/0", headers=behalf("child")
        )

    assert content == [
        {"type": "text", "text": "What is this?"},
        {"type": "text", "text": "Image `photo.png`:"},
        {"type": "image_url", "image_url": {"url": IMAGE}},
    ]
    assert history == content
    assert edited == [{"type": "text", "text": "Who is this?"}, *content[1:]]
    assert (image.content, image.headers["content-type"]) == (
        base64.b64decode(PIXEL),
        "image/png",
    )
    assert other.status_code == 404


def test_image_of_a_conversation_is_stored_once(seeing: House) -> None:
    """Ten turns, whose model gets the image each time, take the room of one image on the disk."""
    content = base64.b64encode(random.Random(7).randbytes(300_000)).decode()
    image = f"data:image/jpeg;base64,{content}"
    with seeing.client() as client:
        post(client, text="What is this?", attachments=[{"name": "photo.jpg", "image": image}])
        for number in range(9):
            post(client, text=f"And part {number}?")
        turns = shown(client, "c-1")
        sent = [one for one in said(seeing) if isinstance(one, list)]
        stored = size_of(seeing)
        kept = client.get(f"/api/conversations/c-1/turns/{turns[0]['run']}/attachments/0").content
        exported = client.get(f"/api/runs/{turns[-1]['run']}/export").text
        client.delete("/api/conversations/c-1").raise_for_status()

    assert [turn["status"] for turn in turns] == ["done"] * 10
    assert [one[-1]["image_url"]["url"] for one in sent] == [image]
    assert len(content) < stored < 2 * len(content)
    assert base64.b64encode(kept).decode() == content
    assert exported.count(content) >= 2  # an export holds all that it needs
    assert size_of(seeing) < len(content)


def size_of(house: House) -> int:
    """Bytes of the ledger, with all that lies in its log."""
    ledger = house.state / "ledger.db"
    with closing(sqlite3.connect(ledger)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return ledger.stat().st_size


def test_model_that_does_not_see_is_not_asked_and_gets_names_of_earlier_images(
    seeing: House,
) -> None:
    """The refusal comes before anything is sent, and names the way out."""
    with seeing.client() as client:
        post(client, text="What is this?", attachments=[PHOTO])
        asked = len(seeing.model.requests)
        refused = post(client, text="And this?", model="expert/blind", attachments=[PHOTO])
        assert len(seeing.model.requests) == asked
        post(client, text="Which colour?", model="expert/blind")

    assert refused.status_code == 400
    error = refused.json()["error"]
    assert (error["code"], error["param"]) == ("no_vision", "attachments")
    assert "'expert/blind' cannot read images" in error["message"]
    assert seeing.model.requests[-1].body["model"] == "blind"
    assert said(seeing)[0] == "What is this?\n\nImage `photo.png`:"


def test_files_that_do_not_fit_the_models_context_are_refused(seeing: House) -> None:
    """A prompt that is cut in silence would be answered wrongly."""
    with seeing.client() as client:
        answer = post(client, text="Sum up", attachments=[{"name": "a.txt", "text": "tea " * 9000}])
        asked = len(seeing.model.requests)

    assert (answer.status_code, asked) == (400, 0)
    assert answer.json()["error"]["code"] == "attachments_too_long"
    assert "reads 8,192" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "attachment",
    [
        {"name": "a.svg", "image": "data:image/svg+xml;base64,PHN2Zy8+"},
        {"name": "a.png", "image": "https://example.org/a.png"},
        {"name": "a.png"},
        {"name": "a.png", "image": IMAGE, "text": "both"},
        {"name": "", "text": "x"},
        {"name": "\n", "text": "x"},
        {"name": "a", "text": "x" * 200_001},
    ],
)
def test_attachment_of_another_kind_is_refused(seeing: House, attachment: Json) -> None:
    """An image is given with the message; the service fetches nothing."""
    with seeing.client() as client:
        answer = post(client, text="x", attachments=[attachment])

    assert answer.status_code == 400
    assert "attachments" in str(answer.json()["error"])


def test_message_of_files_only_is_named_after_them(house: House) -> None:
    """A list of conversations with an empty title would hide it."""
    with house.client() as client:
        post(client, attachments=[NOTES, {"name": "b `.txt", "text": "b"}])
        [listed] = client.get("/api/conversations").json()["conversations"]

    assert listed["title"] == "notes.md, b '.txt"


def test_settings_hold_for_the_conversation_and_only_for_it(house: House) -> None:
    """Model, temperature, length and instructions are chosen once, on any device."""
    chosen = {"model": "expert/scripted", "temperature": 0.3, "max_tokens": 77, "system": "Rhyme."}
    with house.client() as client:
        post(client, text="one", settings=chosen)
        first = house.model.requests[-1].body
        post(client, text="two")
        second = house.model.requests[-1].body
        stored = page(client)["settings"]
        client.patch("/api/conversations/c-1", json={"settings": {"model": "agent"}})
        post(client, text="three")
        third = house.model.requests[-1].body
        wrong = client.patch("/api/conversations/c-1", json={"settings": {"temperature": 9}})

    for sent in (first, second):
        assert (sent["model"], sent["temperature"], sent["max_tokens"]) == ("scripted", 0.3, 77)
        assert "Rhyme." in sent["messages"][0]["content"]
    assert stored == chosen
    assert third["model"] == "auto"
    assert "temperature" not in third
    assert "Rhyme." not in str(third["messages"])
    assert wrong.status_code == 400


def test_page_is_told_how_fast_and_how_full(seeing: House) -> None:
    """Tokens per second of an answer, and what of its context the model has used."""
    seeing.model.when("slow").say("one two three four five", pause=0.05)
    with seeing.client() as client:
        post(client, text="slow", model="expert/scripted")
        found = page(client)

    [turn] = found["turns"]
    assert turn["model"] == "scripted"
    assert 5 < turn["speed"] < 25
    used = found["context"].pop("used")
    assert found["context"] == {"model": "scripted", "size": 8192}
    assert used > 20
