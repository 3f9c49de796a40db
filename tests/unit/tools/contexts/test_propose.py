"""The tool `context.propose`: further contexts as a layer, within bounds."""

import json
from pathlib import Path
from typing import Any

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context, Documents, read_document

PROPOSE = TOOLS["context.propose"]
BASE = """
id: base
steps:
  - id: store
    steps:
      - id: schema
        use: workflow/code-step
        with: {goal: Write the schema of the shop., files: [a.py], contexts: [known]}
  - {id: page, use: workflow/code-step, with: {goal: Show prices., files: [], contexts: []}}
  - {id: old, use: workflow/code-step, with: {goal: Show prices., files: []}}
"""
KINDS = {
    "file": {"use": "code.context", "files": "files", "with": {"budget": 9}},
    "search": {"use": "code.map", "subject": "text"},
}


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    (tmp_path / "a.py").write_text("A = 1\n", encoding="utf-8")
    documents = Documents()
    documents.add(read_document(BASE, file="base.yaml"))
    return Context(workspace=tmp_path, services={Documents: documents})


def wanted(id: str, subject: str, *files: str, **more: Any) -> dict[str, Any]:
    return {"id": id, "subject": subject, "files": list(files), **more}


async def propose(ctx: Context, *contexts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return await PROPOSE.check(
        ctx, {"base": "base", "kinds": KINDS, "wanted": list(contexts), **more}
    )


async def test_context_goes_before_the_steps_and_to_each_step_that_it_helps(ctx: Context) -> None:
    """By its file and by the words of its subject; a step without the input gets none."""
    told = await propose(
        ctx, wanted("A", "Its text is {{ secret }}", "a.py"),
        wanted("prices", "prices of a kind", kind="search"),
    )  # fmt: skip

    layer = json.loads(told["layer"])
    [scope] = layer["add"]
    assert (scope["after"], scope["node"]["id"]) == ("", "contexts")
    first, second = scope["node"]["steps"]
    assert (first["use"], first["with"]) == ("code.context", {"budget": 9, "files": ["a.py"]})
    assert (second["use"], second["with"]) == ("code.map", {"text": "prices of a kind"})
    assert layer["set"] == {
        "store/schema.with.contexts": [
            "known",
            "Its text is {{ '{' }}{ secret }}:\n{{ contexts.a.text | default('') }}",
        ],
        "page.with.contexts": ["prices of a kind:\n{{ contexts.prices.text | default('') }}"],
    }
    assert [one["reason"] for context in told["contexts"] for one in context["steps"]] == [
        "It has the file a.py.", "Its goal has the words: price.",
    ]  # fmt: skip
    assert [step["id"] for step in told["steps"]] == ["store/schema", "page", "old"]


async def test_later_contexts_come_to_the_earlier_ones_with_new_names(ctx: Context) -> None:
    """A second proposal loses nothing of the first."""
    first = await propose(ctx, wanted("a", "One", "a.py"))
    second = await propose(ctx, wanted("a", "Two", "a.py"), layers=first["layers"])

    layer = json.loads(second["layer"])
    assert [(one["in"], one["node"]["id"]) for one in layer["add"]] == [("contexts", "a_2")]
    assert [text.partition(":")[0] for text in layer["set"]["store/schema.with.contexts"]] == [
        "known", "One", "Two",
    ]  # fmt: skip


async def test_context_that_cannot_help_is_left_out_with_the_reason(ctx: Context) -> None:
    """An unknown kind, a missing file, no step, and one too many."""
    told = await propose(
        ctx, wanted("a", "One", "a.py"), wanted("b", "Two", "a.py", kind="web"),
        wanted("c", "Three", "no.py", helps=["page"]), wanted("d", "Weather", kind="search"),
        wanted("e", "Four", "a.py"), limit=1,
    )  # fmt: skip

    assert [context["id"] for context in told["contexts"]] == ["a"]
    assert told["ignored"] == [
        "b: there is no kind 'web'; use one of file, search.",
        "c: none of its files exists.",
        "d: it helps no step.",
        "e: 1 contexts are allowed.",
    ]


async def test_nothing_proposed_leaves_the_plan_as_it_is(ctx: Context) -> None:
    """There is no layer without a context."""
    told = await propose(ctx)

    assert (told["contexts"], told["layer"], told["layers"]) == ([], "", [])
    assert told["problems"] == []
