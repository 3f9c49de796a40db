"""Documents become passages that are found by meaning and words, and that are cited."""

import sqlite3
from pathlib import Path

import pytest

from tests.conftest import served
from tests.integration.agent.conftest import House
from tests.integration.agent.knowledge.conftest import (
    DOCUMENTS,
    EXPERT,
    GUEST,
    KEY,
    HomeGateway,
    add,
    find,
    update,
    write,
)


@pytest.mark.parametrize(
    ("question", "citation"),
    [
        ("How do I erase the settings of the device?", "manuals/router.md#Factory reset"),
        ("Wifi for visitors", "manuals/router.md#Guest network"),
        ("When is the heater serviced?", "manuals/heating.md#Wartung"),
        ("E7", "manuals/heating.md#Störung"),
        ("Welche Zutaten hat die Tomatensuppe?", "manuals/recipes/soup.txt#L1-L3"),
    ],
)
def test_passage_is_found_by_meaning_and_by_words(
    home: House, manuals: Path, question: str, citation: str
) -> None:
    """People ask in other words, and another language, than the document has; codes have none."""
    found = find(home, question)

    assert found["passages"][0]["citation"] == citation
    assert found["by_words"] == ""


def test_passage_has_the_lines_and_headings_of_its_document(home: House, manuals: Path) -> None:
    """A citation that cannot be looked up proves nothing."""
    [passage] = [
        one for one in find(home, "factory reset")["passages"] if "reset" in one["citation"]
    ]
    lines = (manuals / "router.md").read_text(encoding="utf-8").splitlines()
    with home.client() as client:
        around = client.get(f"/api/knowledge/passages/{passage['id']}").json()
        gone = client.get("/api/knowledge/passages/999999")

    assert passage["heading"] == "Router manual > Factory reset"
    assert "\n".join(lines[passage["line"] - 1 : passage["last_line"]]) == passage["text"]
    assert around["before"].startswith("The router connects")
    assert around["after"].startswith("Visitors use")
    assert (gone.status_code, gone.json()["error"]["code"]) == (404, "passage_not_found")


@pytest.mark.parametrize("question", ["What is the capital of Mongolia?", "Who won in 1990?"])
def test_nothing_is_found_where_no_document_fits(home: House, manuals: Path, question: str) -> None:
    """The nearest passage is always there; a model that is given it answers from it."""
    assert find(home, question)["passages"] == []


def test_key_that_is_no_reader_sees_nothing_of_a_source(
    home: House, manuals: Path, tmp_path: Path
) -> None:
    """Also the order and the scores of the other results must not show what the source has."""
    shared = write(tmp_path / "shared", {"rules.md": "# Rules\n\nThe router is on the shelf.\n"})
    add(home, "shared", shared, readers=("guest",))
    before = find(home, "router shelf", guest=True)
    # These would raise the weight of the word, if they were counted.
    secret = {f"{n}.md": f"# Secret {n}\n\nThe router password is rose{n}.\n" for n in range(20)}
    add(home, "secret", write(tmp_path / "secret", secret))
    after = find(home, "router shelf", guest=True)
    with home.client() as client:
        sources = client.get("/api/knowledge", headers=GUEST).json()["sources"]
        shown = client.get("/api/knowledge/secret", headers=GUEST)
        searched = client.get(
            "/api/knowledge/search", params={"query": "x", "source": "secret"}, headers=GUEST
        )
        [hidden] = find(home, "router password rose7", source="secret", limit=1)["passages"]
        passage = client.get(f"/api/knowledge/passages/{hidden['id']}", headers=GUEST)
        body = {"name": "mine", "paths": ["/etc"]}
        added = client.post("/api/knowledge", json=body, headers=GUEST)
        removed = client.delete("/api/knowledge/shared", headers=GUEST)
        client.put("/api/knowledge/shared/readers", json={"readers": []}).raise_for_status()
    last = find(home, "router shelf", guest=True)

    assert [one["citation"] for one in before["passages"]] == ["shared/rules.md#Rules"]
    assert before == after
    assert [one["name"] for one in sources] == ["shared"]
    assert [one.status_code for one in (shown, searched, passage)] == [404, 404, 404]
    assert "secret" not in shown.text.replace("'secret'", "")
    assert [one.status_code for one in (added, removed)] == [403, 403]
    assert (last["passages"], last["sources"]) == ([], [])


def test_only_changed_passages_are_embedded_again(
    home: House, gateway: HomeGateway, tmp_path: Path
) -> None:
    """On a small computer a folder takes hours; a corrected word must not cost them again."""
    folder = write(tmp_path / "notes", DOCUMENTS)
    first = add(home, "notes", folder)
    gateway.embedded.clear()
    (folder / "router.md").touch()
    update(home, "notes")
    touched = list(gateway.texts)
    changed = DOCUMENTS["router.md"].replace("ten seconds", "twelve seconds")
    write(folder, {"router.md": changed})
    (folder / "recipes" / "soup.txt").unlink()
    second = update(home, "notes")

    assert touched == []
    assert [text.partition("\n")[0] for text in gateway.texts] == ["Router manual > Factory reset"]
    assert second["counts"]["passages"] == second["counts"]["embedded"]
    assert second["counts"]["passages"] == first["counts"]["passages"] - 1
    assert "twelve" in find(home, "factory reset", source="notes")["passages"][0]["text"]
    assert find(home, "tomato soup onions", source="notes")["passages"] == []


def test_content_of_a_removed_source_is_gone_from_the_disk(home: House, tmp_path: Path) -> None:
    """A document that is removed because it is private must not stay in the file of the index."""
    add(home, "diary", write(tmp_path / "diary", {"day.txt": "The password is Zwiebelkuchen.\n"}))
    files = [home.state / "knowledge.db", home.state / "knowledge.db-wal"]
    stored = b"".join(file.read_bytes() for file in files if file.exists())
    with home.client() as client:
        client.delete("/api/knowledge/diary").raise_for_status()
        again = client.delete("/api/knowledge/diary")
    left = b"".join(file.read_bytes() for file in files if file.exists()).lower()

    assert b"Zwiebelkuchen" in stored
    assert b"zwiebelkuchen" not in left
    assert (again.status_code, again.json()["error"]["code"]) == (404, "source_not_found")


def test_index_of_another_model_embeds_all_passages_again(
    gateway: HomeGateway, tmp_path: Path
) -> None:
    """Vectors of two models cannot be compared; until all are new, passages are found by words."""
    folder = write(tmp_path / "docs", {"a.md": "# A\n\nThe first.\n", "b.md": "# B\n\nSecond.\n"})
    (tmp_path / "state").mkdir()
    for name, key in (("key", "sk-hearth-people"), ("service_key", KEY)):
        (tmp_path / "state" / name).write_text(key)
    with served(gateway) as url:
        house = House(tmp_path / "state", gateway, url, more={"knowledge_seconds": 3600})
        with house.running():
            add(house, "docs", folder)
        with sqlite3.connect(house.state / "knowledge.db") as db:
            db.execute("UPDATE setting SET value = 'older' WHERE name = 'model'")
        gateway.embedded.clear()
        with house.running():
            waiting = update(house, "docs")
            kept = list(gateway.texts)
        house.more["knowledge_model"] = EXPERT
        with house.running():
            done = update(house, "docs")

    assert (waiting["waiting_for"], kept) == ("", [])
    assert {"A\n\nThe first.", "B\n\nSecond."} <= {*gateway.texts}
    assert done["counts"]["embedded"] == 2
