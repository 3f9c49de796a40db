"""A run survives SIGKILL at any moment: what has ended is not repeated."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
EXTERNAL = ("sent", "reply/turn[1]/call[1]")
"""The nodes of the victim's document whose effect is external."""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The whole run, and each that was killed and resumed."""
    program = [sys.executable, "-m", "tests.integration.workflow.victim"]
    done = subprocess.run(
        [*program, str(tmp_path_factory.mktemp("victim"))],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
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


def cut_off_outside(case: dict[str, Any]) -> list[str]:
    """External nodes that had begun and not ended when the process died."""
    events = [tuple(event) for event in case["at_kill"]]
    return [
        path
        for path in EXTERNAL
        if ("node.running", path) in events and ("node.done", path) not in events
    ]


def test_outputs_are_those_of_the_uninterrupted_run(
    whole: dict[str, Any], cases: list[dict[str, Any]]
) -> None:
    """Whoever waits for an answer gets the same one, however often the machine died."""
    assert whole["result"]["outputs"] == {
        "text": "HI",
        "n": 12,
        "reply": "turn 0.\n\nturn 1, done.",
    }
    for case in cases:
        if not cut_off_outside(case):
            assert case["result"]["status"] == "done", name(case)
            assert case["result"]["outputs"] == whole["result"]["outputs"], name(case)
            assert case["log"] == whole["log"] == ["sent 12", "by the agent"], name(case)


def test_external_effect_never_happens_twice(cases: list[dict[str, Any]]) -> None:
    """A message that may have been sent is not sent again; the run fails and says where to look."""
    unknown = [case for case in cases if cut_off_outside(case)]
    for case in unknown:
        path = cut_off_outside(case)[0]
        assert case["result"]["status"] == "failed", name(case)
        assert case["result"]["error"].startswith(f"{path}: unknown outcome: "), name(case)
        assert case["log"] == case["log_at_kill"], name(case)
    for case in cases:
        assert len(case["log"]) == len(set(case["log"])), name(case)
    assert {cut_off_outside(case)[0] for case in unknown} == set(EXTERNAL)
    assert any(len(case["log_at_kill"]) > len(done_outside(case)) for case in unknown)


def done_outside(case: dict[str, Any]) -> list[str]:
    return [path for kind, path in case["at_kill"] if kind == "node.done" and path in EXTERNAL]


def test_what_has_ended_is_not_repeated(cases: list[dict[str, Any]]) -> None:
    """Nodes, and calls inside an agent, that are done when the process dies run once."""
    for case in cases:
        done: set[str] = set()
        for kind, path in case["events"]:
            assert not (kind == "node.running" and path in done), f"{path}, {name(case)}"
            if kind in ("node.done", "node.skipped"):
                assert path not in done, f"{path}, {name(case)}"
                done.add(path)


@pytest.mark.proves("001-08")
def test_ledger_is_a_true_beginning_and_has_one_end(cases: list[dict[str, Any]]) -> None:
    """No partial record is visible, the order is kept, and the run ends exactly once."""
    for case in cases:
        kinds = [kind for kind, _ in case["events"]]
        assert case["events"][: len(case["at_kill"])] == case["at_kill"], name(case)
        ends = [kind for kind in kinds if kind in ("run.done", "run.failed", "run.cancelled")]
        assert ends == [kinds[-1]], name(case)
        if case["at_kill"] and case["at_kill"][-1][0] != "run.done":
            assert kinds[len(case["at_kill"])] == "run.resumed", name(case)
