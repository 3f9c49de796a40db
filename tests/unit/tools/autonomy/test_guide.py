"""The tool `workflow.guide`: the text is made from what is there."""

import re
from dataclasses import replace
from typing import Any

import pytest

from pipecatapp.application.documents.files import Library
from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context, Documents
from pipecatapp.workflow.syntax import Node, WorkflowDocument

GUIDE = TOOLS["workflow.guide"]
ALLOW = ["pure", "llm", "read"]


async def text(tools: dict[str, Any] | None = None, **given: Any) -> str:
    services: dict[Any, object] = {Documents: Library.shipped().documents}
    ctx = Context(tools=tools or dict(TOOLS), services=services)
    told = await GUIDE.check(ctx, {"allow": ALLOW, "budget": 20000, **given})
    return str(told["text"])


@pytest.mark.proves("000-23")
async def test_every_allowed_tool_and_every_key_is_explained_and_nothing_else() -> None:
    """A tool or key that is added, renamed or removed is in the text, or this fails."""
    guide = await text()

    named = set(re.findall(r"^\* ([a-z.-]+) \[", guide, re.MULTILINE))
    assert named == {name for name, tool in TOOLS.items() if tool.effect in ALLOW}
    keys = set(re.findall(r"^\* ([a-z_]+): ", guide, re.MULTILINE))
    models = (WorkflowDocument, Node)
    assert keys == {
        facts.alias or name for model in models for name, facts in model.model_fields.items()
    }
    for name, tool in TOOLS.items():
        if tool.effect in ALLOW:
            (line,) = [line for line in guide.splitlines() if line.startswith(f"* {name} [")]
            for field in tool.input_schema().get("properties", {}):
                assert re.search(rf"\b{field}\b", line.partition("Takes")[2]), (name, field)


@pytest.mark.proves("000-23")
async def test_tool_that_is_learned_while_the_service_runs_is_in_the_next_text() -> None:
    """Such as one of an MCP server."""
    learned = replace(TOOLS["value"], name="mcp/clock/now", about="Tell the time there.")

    assert "mcp/clock/now" not in await text()
    assert "* mcp/clock/now [pure]: Tell the time there." in await text(
        {**TOOLS, "mcp/clock/now": learned}
    )


async def test_examples_are_whole_and_left_out_where_they_do_not_fit() -> None:
    """Half an example teaches mistakes."""
    assert (await text()).count("```yaml") == 2
    assert (await text(budget=5500)).count("```yaml") >= 1
    assert (await text(budget=200)).count("```yaml") == 0
