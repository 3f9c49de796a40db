"""The tool `workflow.check`; the tests of `self_autonomy` compile real documents."""

from collections.abc import Collection, Mapping
from typing import Any

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.tools.autonomy.authoring import Author, Examined
from pipecatapp.workflow import Context, ToolFailed

CHECK = TOOLS["workflow.check"]


class Compiler:
    """Knows one wrong word."""

    async def examine(self, document: str, allow: Collection[str]) -> Examined:
        return Examined(["no tool nosuch"] if "nosuch\n" in document else [], steps="1", models="0")

    async def start_child(self, workflow: str, inputs: Mapping[str, Any], **named: Any) -> str:
        raise AssertionError("checking starts nothing")


CTX = Context(services={Author: Author(Compiler())})


async def test_document_in_a_fence_is_checked_and_compared_with_the_one_before() -> None:
    """Models often write a fence around what they were asked for."""
    told = await CHECK.check(
        CTX,
        {"document": "Here:\n```yaml\nid: b\n```\n", "allow": ["pure"], "previous": "id: a\n"},
    )

    assert (told["ok"], told["document"]) == (True, "id: b\n")
    assert told["diff"].splitlines()[-2:] == ["-id: a", "+id: b"]
    assert told["bound"] == "steps: 1; model calls: 0"


async def test_last_wrong_document_fails_with_what_was_wrong_with_all() -> None:
    """A person who reads the failure sees each try."""
    given = {"document": "use: nosuch\n", "allow": ["pure"], "before": ["no tool other"]}

    told = await CHECK.check(CTX, given)

    assert (told["ok"], told["diagnostics"]) == (False, ["no tool nosuch"])
    assert told["all"] == ["no tool other", "no tool nosuch"]
    with pytest.raises(ToolFailed, match="no tool other; no tool nosuch"):
        await CHECK.check(CTX, {**given, "last": True})
