"""Files that cannot be indexed, and folders that change, while the service runs or is killed."""

import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from tests.conftest import served
from tests.integration.agent.conftest import House
from tests.integration.agent.knowledge.conftest import (
    KEY,
    HomeGateway,
    add,
    find,
    indexed,
    update,
    write,
)
from tests.integration.agent.test_cli import announce, command
from tests.integration.agent.test_restart import process
from tests.integration.local.conftest import wait_for
from tests.support.pdfs import ENCRYPTED, pdf


@contextmanager
def own_house(gateway: HomeGateway, folder: Path) -> Iterator[House]:
    """A state directory for one test; nothing runs on it yet."""
    (folder / "state").mkdir()
    for name, key in (("key", "sk-hearth-people"), ("service_key", KEY)):
        (folder / "state" / name).write_text(key)
    with served(gateway) as url:
        yield House(folder / "state", gateway, url)


def test_file_that_cannot_be_indexed_is_named_and_stops_no_other(
    home: House, tmp_path: Path
) -> None:
    """A folder of a home has broken downloads, pictures and scans between its documents."""
    folder = write(
        tmp_path / "mixed", {"good.md": "# Good\n\nThe boiler is blue.\n", "empty.txt": ""}
    )
    (folder / "plain.pdf").write_bytes(pdf())
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7\nnothing")
    (folder / "locked.pdf").write_bytes(pdf(trailer=ENCRYPTED))
    (folder / "data.dat").write_bytes(b"\0\1\2" * 100)
    (folder / "photo.png").write_bytes(b"\x89PNG")
    (folder / ".hidden.md").write_text("hidden boiler")
    (folder / "link.md").symlink_to("/etc/passwd")
    os.mkfifo(folder / "pipe.txt")
    with (folder / "big.txt").open("wb") as big:
        big.truncate(50 << 20)
    source = add(home, "mixed", folder)
    failures = {one["path"]: one["error"] for one in source["failures"]}
    [page] = find(home, "plain text of this page", source="mixed", limit=1)["passages"]

    assert source["error"] == ""
    assert source["counts"]["files"] == 2
    assert {*failures} == {"empty.txt", "broken.pdf", "locked.pdf", "data.dat", "big.txt"}
    assert failures["empty.txt"] == "It is empty."
    assert failures["big.txt"].startswith("It has 50 MiB, and at most 32 MiB are read.")
    assert "neither text nor a document" in failures["data.dat"]
    assert all("cannot be read" in failures[name] for name in ("broken.pdf", "locked.pdf"))
    assert (page["citation"], page["page"]) == ("mixed/plain.pdf#page=1", 1)


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        ({"name": "x", "paths": ["/no/such/folder"]}, 422, "does not exist"),
        ({"name": "x", "paths": ["docs"]}, 422, "not an absolute path"),
        ({"name": "X y", "paths": ["/tmp"]}, 422, "lower case letters"),
        ({"name": "x", "paths": ["/tmp", "/var/tmp"]}, 422, "Add them as two sources"),
        ({"name": "x", "paths": []}, 400, "paths"),
        ({"name": "x", "path": "/tmp"}, 400, "path"),
    ],
)
def test_source_that_makes_no_sense_is_refused_with_the_reason(
    home: House, body: dict[str, Any], status: int, reason: str
) -> None:
    """Nothing is added, and the sentence says what to correct."""
    with home.client() as client:
        answer = client.post("/api/knowledge", json=body)
        names = [one["name"] for one in client.get("/api/knowledge").json()["sources"]]

    assert answer.status_code == status
    assert reason in answer.json()["error"]["message"]
    assert "x" not in names


def test_text_that_the_expert_refuses_is_found_by_its_words(
    home: House, gateway: HomeGateway, tmp_path: Path
) -> None:
    """One text that a model cannot take must not keep all others from being embedded."""
    gateway.refuse = lambda texts: 400 if any("poison" in text for text in texts) else 0
    documents = {f"{n}.md": f"# Paper {n}\n\nThis is paper {n}.\n" for n in range(3)}
    folder = write(tmp_path / "papers", {**documents, "z.md": "# Last\n\nThis is poison.\n"})
    source = add(home, "papers", folder)
    gateway.refuse = lambda _texts: 0

    assert source["waiting_for"] == ""
    assert find(home, "poison", source="papers")["passages"][0]["citation"] == "papers/z.md#Last"


def test_changes_of_a_folder_are_found_while_the_service_runs(
    gateway: HomeGateway, tmp_path: Path
) -> None:
    """Nobody wants to type a command after each scan of a letter."""
    folder = write(tmp_path / "letters", {"a.md": "# Bank\n\nThe account is closed.\n"})
    with own_house(gateway, tmp_path) as house:
        house.more["knowledge_seconds"] = 0.1
        with house.running():
            add(house, "letters", folder)
            write(folder, {"b.md": "# Dentist\n\nThe appointment is on Friday.\n"})
            new = wait_for(lambda: find(house, "dentist")["passages"], "the letter is found")
            (folder / "b.md").unlink()
            wait_for(lambda: not find(house, "dentist")["passages"], "the letter is gone")

    assert new[0]["citation"] == "letters/b.md#Dentist"


def test_index_is_complete_after_the_service_was_killed_in_the_middle(
    gateway: HomeGateway, tmp_path: Path
) -> None:
    """A power failure costs neither a document nor the hours of embedding that are done."""
    first = {f"{n}.md": f"# Part {n}\n\nText number {n}.\n" for n in range(300)}
    folder = write(tmp_path / "many", first)
    few = write(tmp_path / "few", {f"{n}.md": f"# Few {n}\n\nNote {n}.\n" for n in range(9)})
    gateway.refuse = lambda texts: 503 if "Part" in texts[0] or len(gateway.texts) > 15 else 0
    gateway.embedded.clear()
    with own_house(gateway, tmp_path) as house:
        with process(house, tmp_path / "log") as running:
            with house.client() as client:
                for name, path in (("few", few), ("many", folder)):
                    body = {"name": name, "paths": [str(path)]}
                    client.post("/api/knowledge", json=body).raise_for_status()
                wait_for(lambda: _files(house) > 20, "some files are indexed")
            running.send_signal(signal.SIGKILL)
            running.wait()
        between = _files(house)
        house.more["knowledge_seconds"] = 0.1
        with house.running():
            many = indexed(house, "many")
            wait_for(lambda: many if _files(house) == 309 else None, "all files are indexed")
            gateway.refuse = lambda texts: 503 if "Part" in texts[0] else 0
            done = wait_for(
                lambda: one if (one := update(house, "few"))["counts"]["embedded"] == 9 else None,
                "the notes are embedded",
            )

    assert between < 309
    assert done["counts"]["passages"] == 9
    assert sorted(text for text in gateway.texts if "Few" in text) == sorted(
        f"Few {n}\n\nNote {n}." for n in range(9)
    )
    gateway.refuse = lambda _texts: 0


def _files(house: House) -> int:
    """How many files the index has; each must be there once."""
    path = house.state / "knowledge.db"
    if not path.exists():
        return 0
    with closing(sqlite3.connect(path)) as db:
        sql = "SELECT count(*), count(DISTINCT source || path) FROM file"
        found, distinct = db.execute(sql).fetchone()
    assert found == distinct
    return int(found)


def test_commands_add_list_search_and_remove(
    home: House, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The command beside a running instance: what it prints, and its exit codes."""
    announce(home)
    hearth = command(home, monkeypatch)
    folder = write(
        tmp_path / "tools", {"saw.md": "# Saw\n\nThe saw hangs in the shed.\n", "e.txt": ""}
    )

    def said(*words: str, code: int = 0) -> str:
        done: Result = hearth("knowledge", *words)
        assert done.exit_code == code, done.output
        return done.output

    added = said("add", "tools", str(folder), "--readers", "guest, anna")
    twice = said("add", "tools", str(folder), code=1)
    listed = said("list")
    found = said("search", "Where is the saw?", "--source", "tools")
    nothing = said("search", "the capital of Mongolia", "--source", "tools", code=1)
    readers = said("readers", "tools", "--readers", "all")
    removed = said("remove", "tools")
    missing = said("show", "tools", code=1)

    assert "tools: 1 files, 1 passages, 1 of them found by meaning" in added
    assert "Not indexed: e.txt: It is empty." in added
    assert "There is a source 'tools' already." in twice
    assert "anna, guest" in listed
    assert "tools/saw.md#Saw  (lines 3-3)\nThe saw hangs in the shed." in found
    assert "No document fits." in nothing
    assert "all keys" in readers
    assert "Removed tools" in removed
    assert "There is no source 'tools'." in missing
