"""The tools `run.start` and `autonomy.start`; the tests of `self_autonomy` start real runs."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from pipecatapp.tools import TOOLS
from pipecatapp.tools.autonomy.authoring import Author, Examined
from pipecatapp.workflow import Context, Ledger

START = TOOLS["run.start"]
AUTONOMY = TOOLS["autonomy.start"]


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


async def test_model_can_only_say_what_autonomy_is_for(tmp_path: Path) -> None:
    """The workflow is fixed, and a person approves each call."""
    ledger, starter = Ledger(tmp_path / "ledger.db"), Starter()
    ctx = Context(run="r1", path="a/b", services={Author: Author(starter), Ledger: ledger})

    told = await AUTONOMY.check(ctx, {"text": "Tidy up."})

    ledger.close()
    assert told == {"run": "child"}
    inputs = {"text": "Tidy up.", "max_rounds": 3}
    assert starter.started == [("autonomy", inputs, "r1", "a/b")]
    assert AUTONOMY.approval({}) == "always"
    assert AUTONOMY.author_inputs == {"max_rounds"}
