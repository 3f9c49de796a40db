"""The tool `task.find` on a real ledger."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pipecatapp.records.tasks import StoredTasks
from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context, Documents, Ledger, read_document

FIND = TOOLS["task.find"]
BASE = "id: base\nsteps: []\n"
TASK = """
id: {id}
extends: {base}
tags: [{tags}]
about: {about}
add:
  - node: {{id: one, use: value, with: {{value: 1, goal: "Do {id}."}}}}
"""


@pytest.fixture
async def ctx(tmp_path: Path) -> AsyncIterator[Context]:
    """A library with three tasks."""
    ledger, documents = Ledger(tmp_path / "ledger.db"), Documents()
    await ledger.hold(lambda event: None)
    for base in ("base", "other"):
        documents.add(read_document(BASE.replace("base", base), file="base.yaml"))
    for id, base, tags, about in (
        ("task-parser", "base", "parser, csv", "Reads the fields of CSV files."),
        ("task-page", "base", "web", "Shows the rows on a page."),
        ("task-else", "other", "parser", "Reads the fields of CSV files elsewhere."),
    ):
        text = TASK.format(id=id, base=base, tags=tags, about=about)
        written = read_document(text, file="task.yaml")
        documents.add(written)
        await StoredTasks(ledger).keep(documents.workflow(written), text)
    try:
        yield Context(services={Ledger: ledger, Documents: documents})
    finally:
        await ledger.let_go()
        ledger.close()


async def test_nearest_task_is_first_with_its_score_and_steps(ctx: Context) -> None:
    """The score is the share of the words that the task has: reads, fields, file of four."""
    told = await FIND.check(ctx, {"text": "Read the fields of binary files", "extends": "base"})

    best = told["tasks"][0]
    assert (best["id"], best["score"]) == ("task-parser", 0.75)
    assert best["steps"] == [{"id": "one", "goal": "Do task-parser.", "files": []}]
    assert "task-else" not in [task["id"] for task in told["tasks"]]


async def test_tags_count_as_words_and_nothing_alike_is_nothing(ctx: Context) -> None:
    """What has no word in common is not offered at all."""
    with_tag = await FIND.check(ctx, {"text": "Read fields", "tags": ["parser"]})
    nothing = await FIND.check(ctx, {"text": "Paint a boat"})

    assert [task["id"] for task in with_tag["tasks"]][:2] == ["task-parser", "task-else"]
    assert with_tag["tasks"][0]["score"] == 1.0
    assert nothing["tasks"] == []
