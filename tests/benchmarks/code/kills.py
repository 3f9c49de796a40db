"""Runs of coding workflows and chains of autonomy, killed around each event and resumed."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean
from typing import Any

from tests.benchmarks.entry import Benchmark, Pair
from tests.integration.agent.code.victim import faults

ROOT = Path(__file__).parents[3]
SCENARIOS = {
    "fix": ("all", "the repair"),
    "build": ("after", "the program"),
    "coordinate": ("after", "the coordinator"),
    "autonomy": ("after", "the chain of autonomy"),
}
"""Scenario of the victim -> which kills are made, and its name in the report."""
KILLS: dict[str, int] = {}
"""How many kills of each scenario the last measurement has made."""


def measure() -> list[Pair]:
    """Kill the service after the commit of every event, and in a repair before it as well.

    Raises `RuntimeError` unless each run ends with the same commit on one branch, or each chain
    with the same runs, and without a second start of a step that had ended.
    """
    pairs = []
    for scenario, (which, name) in SCENARIOS.items():
        cases = _killed(scenario, which)
        KILLS[name] = len(cases)
        times = ["after", "before"] if which == "all" else [which]
        pairs += [_pair([one for one in cases if one["when"] == when]) for when in times]
    return pairs


def _killed(task: str, which: str) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        words = ["-m", "tests.integration.agent.code.victim", folder, which, task]
        ended = subprocess.run(
            [sys.executable, *words], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
        )
    whole, *killed = [json.loads(line) for line in ended.stdout.splitlines()]
    for case in killed:
        if wrong := faults(whole, case):
            raise RuntimeError(
                f"{task}, killed {case['when']} event {case['count']}: {'; '.join(wrong)}"
            )
    return killed


def _pair(cases: list[dict[str, Any]]) -> Pair:
    """The steps that were run again, and those that a program without a ledger would run again."""
    begun = [len(_steps(case["at_kill"])) for case in cases]
    again = [len(_steps(case["events"])) - len(set(_steps(case["events"]))) for case in cases]
    return Pair(mean(again), mean(begun), also={"most steps run again": float(max(again))})


def _steps(events: list[list[str]]) -> list[str]:
    """Every start of a step that calls a tool."""
    return [path for kind, path, effect in events if kind == "node.running" and effect]


def remarks() -> list[str]:
    """How much was tried."""
    kills = ", ".join(f"{number} kills of {name}" for name, number in KILLS.items())
    return [f"{kills}: each run ended with the same result, on one branch if it delivers one."]


BENCHMARK = Benchmark(
    id="code.kill",
    about=(
        "A repair of a bug that needs two attempts; a program whose packages do not exist and that"
        " gets guidance and a further feature; a program by the coordinator with an item that a"
        " person adds, a change outside of the plan and a repair; a chain of autonomy of two"
        " confirmed workflows. The agent service is killed (SIGKILL) right after the commit of"
        " every event, of the repair right before it as well, and started again. Steps of the run"
        " that were made again for one kill; a run that begins again makes all of them again."
    ),
    unit="steps",
    peer="begin again",
    peer_version=lambda: "without the ledger",
    goal=4.0,
    target=1.0,
    lower_is_better=True,
    measure=measure,
    remarks=remarks,
)
