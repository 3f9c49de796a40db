"""The tool `run.start`; the tests of `self_autonomy` start real runs with it."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from pipecatapp.tools import TOOLS
from pipecatapp.tools.autonomy.authoring import Author, Examined
from pipecatapp.workflow import Context, Ledger

START = TOOLS["run.start"]


class Starter:
    """Notes what it is asked to start."""

    def __init__(self) -> None:
        self.started: list[tuple[str, Mapping[str, Any], str, str]] = []

    async def examine(self, document: str, allow: Collection[str]) -> Examined:
        raise AssertionError("starting checks nothing")

    async def start_child(
        self, workflow: str, inputs: Mapping[str, Any], *, parent: str, path: str, beside: Any
    ) -> str:
        self.started.append((workflow, inputs, parent, path))
        return "child"


async def test_run_is_started_for_its_step(tmp_path: Path) -> None:
    """By run and path the application finds the one that a step has started already."""
    ledger, starter = Ledger(tmp_path / "ledger.db"), Starter()
    ctx = Context(run="r1", path="a/b", services={Author: Author(starter), Ledger: ledger})

    told = await START.check(ctx, {"workflow": "w", "inputs": {"x": 1}})

    ledger.close()
    assert told == {"run": "child"}
    assert starter.started == [("w", {"x": 1}, "r1", "a/b")]
    assert START.approval({}) == "always"
