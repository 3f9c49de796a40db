"""The tool `task.save`: the document that it gives to the library."""

import json
from typing import Any

import pytest

from pipecatapp.records.tasks import StoredTask
from pipecatapp.tools import TOOLS
from pipecatapp.tools.tasks.save import Tasks
from pipecatapp.workflow import Context, Diagnostic, InvalidDocument, ToolFailed, read_document

SAVE = TOOLS["task.save"]
LAYERS: list[dict[str, Any]] = [
    {"kind": "layer", "id": "plan-1", "of": "base", "add": [{"node": {"id": "a", "use": "value"}}]},
    {"kind": "layer", "id": "plan-2", "of": "base", "set": {"a.with.goal": "New."},
     "append": {"a.with.notes": ["It failed."]}},
]  # fmt: skip


class Library:
    """A library that keeps what it is given."""

    def __init__(self) -> None:
        self.documents: list[str] = []

    async def keep_task(self, document: str, *, file: str = "") -> StoredTask:
        value = read_document(document, file="task.yaml").value
        if value["id"] == "task-refused":
            raise InvalidDocument([Diagnostic("task.yaml", 1, 1, "no such base")])
        self.documents = [document]
        return StoredTask(value["id"], 1, "", "", tuple(value["tags"]), document)


def given(title: str) -> dict[str, Any]:
    layers = [json.dumps(layer) + "\n" for layer in LAYERS]
    return {"title": title, "base": "base", "layers": layers, "tags": ["csv"], "about": "Reads."}


async def test_plan_is_stored_without_the_notes_of_its_run() -> None:
    """The next one to use the task has not failed yet."""
    library = Library()
    ctx = Context(services={Tasks: Tasks(library)})

    told = await SAVE.check(ctx, given("Read CSV files!"))

    assert told == {"id": "task-read-csv-files", "version": 1, "tags": ["csv", "task"]}
    value = read_document(library.documents[0], file="task.yaml").value
    assert value["extends"] == "base"
    assert value["add"] == LAYERS[0]["add"]
    assert value["set"] == {"a.with.goal": "New."}
    assert "append" not in value


async def test_document_that_the_library_refuses_is_an_error() -> None:
    """The reason is the library's."""
    ctx = Context(services={Tasks: Tasks(Library())})

    with pytest.raises(ToolFailed, match="no such base"):
        await SAVE.check(ctx, given("refused"))
