"""The tool `runs.digest` on runs of a real engine."""

from typing import Any

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context, Ledger
from tests.unit.workflow.conftest import OpenEngine, open_engine

__all__ = ["open_engine"]
DIGEST = TOOLS["runs.digest"]
GOOD = """
id: good
inputs: {text: text}
steps: [{id: a, use: text.upper, with: {text: "{{ inputs.text }}"}}]
outputs: {said: "{{ a.text }}"}
"""
BAD = GOOD.replace("good", "bad").replace("text.upper", "text.fail")


@pytest.mark.proves("000-07")
async def test_runs_with_words_of_the_request_are_summed_up_with_their_ids(
    open_engine: OpenEngine,
) -> None:
    """What worked and what failed, the one with the most common words first."""
    engine = await open_engine(GOOD, BAD)
    runs: list[str] = []
    for workflow, text in (
        ("good", "Write a letter"), ("bad", "Write a long letter"), ("good", "Paint a boat"),
    ):  # fmt: skip
        runs.append(await engine.start(workflow, {"text": text}))
        await engine.wait(runs[-1])
    ctx = Context(run="other", services={Ledger: engine.ledger})

    told: dict[str, Any] = await DIGEST.check(ctx, {"text": "write one more long letter"})
    nothing = await DIGEST.check(ctx, {"text": "cook"})

    assert told["runs"] == [runs[1], runs[0]]
    failed, worked = told["text"].split(f"* Run {runs[0]}")
    assert f"Run {runs[1]} (bad), failed: Write a long letter" in failed
    assert "Failed step a: Write a long letter" in failed
    assert "It gave: {'said': 'WRITE A LETTER'}" in worked
    assert nothing == {"text": "", "runs": []}
