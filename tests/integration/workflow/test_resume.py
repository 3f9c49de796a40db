"""A run survives SIGKILL at any moment: what has ended is not repeated."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
OUTPUTS = {
    "effects": {"text": "HI", "n": 12, "reply": "turn 0.\n\nturn 1, done."},
    "control": {
        "all": ["item 1 is 2", "item 2 is 4", "item 3 is 6"],
        "grown": "8 2",
        "draft": "D012",
        "risky": "failed",
        "asked": "yes",
    },
}
LOGS = {
    "effects": ["by the agent", "sent 12"],
    "control": ["item 1 is 2", "item 2 is 4", "item 3 is 6"],
}


@pytest.fixture(scope="module", params=["effects", "control"])
def document(request: pytest.FixtureRequest) -> str:
    """One document with an agent and calls inside of it, one with every kind of control flow."""
    return str(request.param)


@pytest.fixture(scope="module")
def told(document: str, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The whole run, and each that was killed and resumed."""
    program = [sys.executable, "-m", "tests.integration.workflow.victim"]
    done = subprocess.run(
        [*program, str(tmp_path_factory.mktemp("victim")), document],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def whole(told: list[dict[str, Any]]) -> dict[str, Any]:
    return told[0]


@pytest.fixture(scope="module")
def cases(told: list[dict[str, Any]], whole: dict[str, Any]) -> list[dict[str, Any]]:
    """Every case was really killed, at every event, on both sides of its commit."""
    killed = told[1:]
    assert [case["signal"] for case in killed] == [9] * (2 * len(whole["events"]))
    return killed


def name(case: dict[str, Any]) -> str:
    return f"killed {case['when']} the commit of event {case['count']}"


def outside(case: dict[str, Any], kind: str) -> set[str]:
    """External nodes of which an event of this kind was on the disk when the process died."""
    began = {path for type, path, effect in case["at_kill"] if effect == "external"}
    return {path for type, path, _ in case["at_kill"] if type == kind and path in began}


def cut_off_outside(case: dict[str, Any]) -> set[str]:
    """External nodes that had begun and not ended when the process died."""
    return outside(case, "node.running") - outside(case, "node.done")


@pytest.mark.proves("001-09")
def test_outputs_are_those_of_the_uninterrupted_run(
    document: str, whole: dict[str, Any], cases: list[dict[str, Any]]
) -> None:
    """Whoever waits for an answer gets the same one, however often the machine died."""
    assert whole["result"]["outputs"] == OUTPUTS[document]
    for case in cases:
        if not cut_off_outside(case):
            assert case["result"]["status"] == "done", name(case)
            assert case["result"]["outputs"] == whole["result"]["outputs"], name(case)
            assert sorted(case["log"]) == sorted(whole["log"]) == LOGS[document], name(case)


@pytest.mark.proves("001-09")
def test_external_effect_never_happens_twice(cases: list[dict[str, Any]]) -> None:
    """A message that may have been sent is not sent again; the run fails and says where to look."""
    unknown = [case for case in cases if cut_off_outside(case)]
    for case in unknown:
        assert case["result"]["status"] == "failed", name(case)
        path, _, reason = case["result"]["error"].partition(": ")
        assert path in cut_off_outside(case), name(case)
        assert reason.startswith("unknown outcome: "), name(case)
        assert case["log"] == case["log_at_kill"], name(case)
    for case in cases:
        assert len(case["log"]) == len(set(case["log"])), name(case)
    assert set().union(*map(cut_off_outside, unknown)) == outside(cases[-1], "node.running")
    assert any(len(case["log_at_kill"]) > len(outside(case, "node.done")) for case in unknown)


def test_what_has_ended_is_not_repeated(cases: list[dict[str, Any]]) -> None:
    """Nodes, and calls inside an agent, that are done when the process dies run once."""
    for case in cases:
        done: set[str] = set()
        for kind, path, _ in case["events"]:
            assert not (kind == "node.running" and path in done), f"{path}, {name(case)}"
            if kind in ("node.done", "node.skipped"):
                assert path not in done, f"{path}, {name(case)}"
                done.add(path)


@pytest.mark.proves("001-08")
def test_ledger_is_a_true_beginning_and_has_one_end(cases: list[dict[str, Any]]) -> None:
    """No partial record is visible, the order is kept, and the run ends exactly once."""
    for case in cases:
        kinds = [kind for kind, _, _ in case["events"]]
        assert case["events"][: len(case["at_kill"])] == case["at_kill"], name(case)
        ends = [kind for kind in kinds if kind in ("run.done", "run.failed", "run.cancelled")]
        assert ends == [kinds[-1]], name(case)
        if case["at_kill"] and case["at_kill"][-1][0] != "run.done":
            assert kinds[len(case["at_kill"])] == "run.resumed", name(case)


BACK = """
import asyncio, os, signal, sys
from pathlib import Path
from pydantic import BaseModel
from pipecatapp.workflow import Context, Engine, Ledger, load_document, tool

class Number(BaseModel):
    value: int

@tool("try.killed", effect="pure")
async def draft(ctx: Context, value: int) -> Number:
    \"\"\"Die in the visit that is named on the command line.\"\"\"
    if value == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    return Number(value=value)

DOCUMENT = \"\"\"
id: back
limits: {nodes: LIMIT}
steps:
  - {id: draft, use: try.killed, with: {value: "{{ loop.index }}"}}
  - {id: again, goto: draft, max: 20}
\"\"\"

async def main():
    ledger = Ledger(Path(sys.argv[1]))
    document = load_document(DOCUMENT.replace("LIMIT", sys.argv[3]), file="back.yaml")
    async with Engine(ledger, tools=[draft], workflows=[document]) as engine:
        resumed = await engine.resume_unfinished()
        run = resumed[0] if resumed else await engine.start("back", {})
        print((await engine.wait(run)).error)
    ledger.close()

asyncio.run(main())
"""


def test_nodes_are_counted_alike_before_and_after_a_kill(tmp_path: Path) -> None:
    """Jumps counted only once the run had been resumed, so a resumed run was stopped earlier."""

    def run(ledger: str, kill: int, limit: int) -> str:
        words = [sys.executable, "-c", BACK, str(tmp_path / ledger), str(kill), str(limit)]
        return subprocess.run(
            words, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False
        ).stdout

    assert run("whole.db", -1, 6) == "draft#7: limits.nodes is 6, and this would be 7\n"
    # The visit in which the process died is made twice, and counts twice.
    assert run("killed.db", 2, 7) == ""
    assert run("killed.db", -1, 7) == "draft#7: limits.nodes is 7, and this would be 8\n"
