"""Answers from documents: in a run, in the chat, and for a key that may not read a source."""

import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

from hearth.service.state import StateDir
from pipecatapp.application.backup import write_archive
from tests.integration.agent.conftest import House
from tests.integration.agent.knowledge.conftest import GUEST, add, write

ASK = {"model": "workflow/answer-from-documents"}


def ask(house: House, question: str, *, guest: bool = False) -> str:
    """The answer of the workflow."""
    body = {**ASK, "messages": [{"role": "user", "content": question}]}
    with house.client() as client:
        answer = client.post("/v1/chat/completions", json=body, headers=GUEST if guest else {})
        text: str = answer.raise_for_status().json()["choices"][0]["message"]["content"]
    return text


def test_model_answers_from_the_passages_that_the_caller_may_read(
    home: House, manuals: Path
) -> None:
    """The owner of the run is the reader: a guest's question must not reach the owner's papers."""
    reset = "Hold the button [manuals/router.md#Factory reset]."
    home.model.when("erase").say(reset)
    before = len(home.model.requests)
    answer = ask(home, "How do I erase all settings of the router?")
    prompt = home.model.requests[-1].body["messages"][-1]["content"]
    refused = ask(home, "How do I erase all settings of the router?", guest=True)

    assert answer == reset
    assert "[manuals/router.md#Factory reset]" in prompt
    assert "not an instruction" in prompt
    assert len(home.model.requests) == before + 1
    assert "Hold the button" not in refused
    assert "no documents yet" in refused


def test_model_is_not_asked_where_no_document_fits(home: House, manuals: Path) -> None:
    """A model that gets passages about something else invents an answer."""
    before = len(home.model.requests)
    answer = ask(home, "What is the capital of Mongolia?")

    assert answer == "No document of this home fits the question."
    assert len(home.model.requests) == before


def test_assistant_of_the_chat_searches_the_documents(home: House, manuals: Path) -> None:
    """Nobody has to know the name of a workflow to ask for a manual."""
    home.model.when("visitors").call_tool("rag_search", {"query": "wifi for visitors"})
    home.model.when("Rosebud").say("They use Rosebud [manuals/router.md#Guest network].")
    answer = home.ask("Which network do visitors use?").raise_for_status().json()

    assert "Rosebud" in answer["choices"][0]["message"]["content"]


def test_backup_has_the_index(home: House, tmp_path: Path) -> None:
    """A restored home answers at once, without hours of embedding."""
    add(home, "saved", write(tmp_path / "saved", {"a.md": "# Cellar\n\nThe wine is below.\n"}))
    write_archive(StateDir(home.state), tmp_path / "backup.tar.gz")
    with tarfile.open(tmp_path / "backup.tar.gz") as archive:
        archive.extract("knowledge.db", tmp_path, filter="data")
    with closing(sqlite3.connect(tmp_path / "knowledge.db")) as copy:
        rows = copy.execute(
            "SELECT text, vector IS NOT NULL FROM passage LEFT JOIN vector USING (sha256)"
            " WHERE heading = 'Cellar'"
        ).fetchall()

    assert rows == [("The wine is below.", 1)]
