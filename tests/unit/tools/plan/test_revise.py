"""The tool `plan.revise`: one more layer on a plan."""

import json
from typing import Any

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context, Documents, read_document

REVISE = TOOLS["plan.revise"]
BASE = """
id: base
steps:
  - id: store
    steps:
      - {id: schema, use: workflow/code-step, with: {goal: Old., files: [a.py], notes: []}}
  - {id: page, use: workflow/code-step, with: {goal: Show., files: [], notes: []}}
"""


@pytest.fixture
def ctx() -> Context:
    documents = Documents()
    documents.add(read_document(BASE, file="base.yaml"))
    return Context(services={Documents: documents})


async def revise(ctx: Context, *changes: dict[str, Any], **more: Any) -> dict[str, Any]:
    return await REVISE.check(ctx, {"base": "base", "changes": list(changes), **more})


async def test_changes_are_one_layer_and_later_notes_come_to_the_earlier_ones(
    ctx: Context,
) -> None:
    """Each attempt adds what it learned; nothing of the plan before is lost."""
    first = await revise(ctx, {"step": "schema", "goal": "New.", "note": "One."})
    second = await revise(ctx, {"step": "schema", "note": "Two."}, layers=first["layers"])

    layer = json.loads(first["layer"])
    assert layer["set"] == {"store/schema.with.goal": "New."}
    assert layer["append"] == {"store/schema.with.notes": ["One."]}
    assert len(second["layers"]) == 2
    assert second["steps"][0] == {"id": "store/schema", "goal": "New.", "files": ["a.py"]}
    assert "notes:\n      - One.\n      - Two." in second["document"]


async def test_step_is_left_out_and_an_unknown_one_is_told(ctx: Context) -> None:
    """A model that names a step that is not there changes nothing by it."""
    told = await revise(ctx, {"step": "page", "drop": True}, {"step": "nosuch", "goal": "X."})

    assert [one["id"] for one in told["steps"]] == ["store/schema"]
    assert told["ignored"] == ["nosuch"]


async def test_note_reaches_every_step_if_no_change_names_one(ctx: Context) -> None:
    """A failure that nobody can place must not get lost."""
    told = await revise(ctx, note="It failed.")

    assert json.loads(told["layer"])["append"] == {
        "store/schema.with.notes": ["It failed."],
        "page.with.notes": ["It failed."],
    }


async def test_change_without_a_note_or_a_goal_makes_no_layer(ctx: Context) -> None:
    """A stored task that fits as it is is used as it is."""
    told = await revise(ctx)

    assert (told["layer"], told["layers"], told["problems"]) == ("", [], [])
    assert len(told["steps"]) == 2
