"""Names of tools of earlier versions, and patterns."""

from dataclasses import replace

import pytest

from pipecatapp.workflow import Engine, load_document
from pipecatapp.workflow.plan import Plan
from pipecatapp.workflow.tool_names import current_name, matches
from tests.unit.workflow.conftest import OpenEngine

OLD = """
kind: workflow
id: old
inputs: {text: text}
steps:
  - {id: said, use: mcp.kitchen.shout, with: {text: "{{ inputs.text }}"}}
outputs: {said: "{{ said.text }}"}
"""


@pytest.mark.parametrize(
    ("name", "now"),
    [
        ("mcp.oven.heat", "mcp/oven/heat"),
        ("mcp.oven-2.get_heat-now", "mcp/oven-2/get_heat-now"),
        ("mcp.*", "mcp/*"),
        ("mcp.oven.*", "mcp/oven/*"),
        ("mcp/oven/heat", "mcp/oven/heat"),
        ("mcp.save", "mcp.save"),
        ("file.read", "file.read"),
        ("workflow/mcp.oven.heat", "workflow/mcp.oven.heat"),
    ],
)
def test_only_names_of_servers_tools_have_changed(name: str, now: str) -> None:
    """A document of an earlier version works, and no other tool is renamed with it."""
    assert current_name(name) == now


@pytest.mark.parametrize(
    ("name", "tool", "expected"),
    [
        ("mcp/*", "mcp/oven/heat", True),
        ("mcp.*", "mcp/oven/heat", True),
        ("mcp/oven/*", "mcp/oven/heat", True),
        ("mcp/oven/*", "mcp/oven2/heat", False),
        ("mcp/*", "mcp.save", False),
        ("file.*", "file.read", True),
        ("file.read", "file.read", True),
        ("file.read", "file.readall", False),
    ],
)
def test_pattern_matches_only_the_names_below_it(name: str, tool: str, *, expected: bool) -> None:
    """A pattern that matches more gives an agent tools that its author has not permitted."""
    assert matches(name, tool) is expected


async def test_document_with_a_former_name_runs(open_engine: OpenEngine) -> None:
    """Nobody edits their documents for an upgrade."""
    engine = await _engine(open_engine)

    result = await engine.wait(await engine.start("old", {"text": "hi"}))

    assert (result.status, result.outputs) == ("done", {"said": "HI"})


async def test_plan_of_an_unfinished_run_has_the_new_name(open_engine: OpenEngine) -> None:
    """A run that an upgrade interrupts finds its tool when it is resumed."""
    engine = await _engine(open_engine)
    stored = engine.plan("old").model_dump(mode="json")
    for body in stored["bodies"].values():
        for node in body["nodes"]:
            node["use"] = "mcp.kitchen.shout"

    plan = Plan.model_validate(stored)

    plan.check_tools(engine.tools)
    assert plan.uses("mcp/kitchen/shout")


async def _engine(open_engine: OpenEngine) -> Engine:
    engine: Engine = await open_engine(OLD)
    engine.learn([replace(engine.tools["text.upper"], name="mcp/kitchen/shout")])
    engine.know(load_document(OLD, file="old.yaml"))
    return engine
