"""Tokens to repair HumanEval's mutants: `fix-bug` and mini-swe-agent, with the same answers."""

import difflib
import json
import os
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

import httpx2
import structlog

from tests.benchmarks.code.humaneval import COUNT, PROGRAM, TESTS, Broken, broken
from tests.benchmarks.code.mutants import mutants
from tests.benchmarks.entry import Benchmark, Pair
from tests.clients.environments import python_of
from tests.conftest import served
from tests.integration.agent.code.conftest import follow_until, repository
from tests.integration.agent.conftest import House, ScriptedGateway
from tests.support.projects import wheels

BATCHES: Final = max(1, min(5, COUNT // 20))
QUALITY: Final = 0.5
"""The share of right answers."""
ATTEMPTS: Final = 4
"""Answers of the model with a change, as many as `fix-bug` asks for."""
LOOK: Final = (f"python3 {TESTS}", f"cat {PROGRAM}")
"""What the model of mini-swe-agent does first; it has to see the error and the code."""
COMMAND: Final = "python3 -m pytest -q"
SEEN: Counter[str] = Counter()


@dataclass(frozen=True)
class Repair:
    """One side's work on one mutant: tokens of prompts and answers."""

    tokens: float
    largest: float
    green: bool


def measure() -> list[Pair]:
    """Let both sides repair each mutant with the same right and wrong changes."""
    SEEN.clear()
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        (root / "checking").mkdir()
        cases = [(one, list(_answers(one))) for one in broken(root / "checking")]
        ours, theirs = _ours(root, cases), _theirs(cases)
    for side, repairs in (("hearth", ours), ("mini", theirs)):
        SEEN[f"{side} green"] = sum(one.green for one in repairs)
        SEEN[f"{side} largest"] = round(max(one.largest for one in repairs))
    size = max(1, len(cases) // BATCHES)
    return [
        Pair(_mean(ours[at : at + size]), _mean(theirs[at : at + size]))
        for at in range(0, size * BATCHES, size)
        if ours[at : at + size]
    ]


def _mean(repairs: list[Repair]) -> float:
    """Tokens of all repairs for each one that succeeded."""
    return sum(one.tokens for one in repairs) / max(1, sum(one.green for one in repairs))


def _answers(one: Broken) -> Iterator[str]:
    """Yield the program that each attempt leads to: the original one with the fixed quality."""
    wrong = [
        text
        for mutant in mutants(PROGRAM, one.program)
        if (text := mutant.applied(one.program)) not in (None, one.problem.program)
    ]
    random = Random(f"{one.problem.id} {one.mutant.start} {one.mutant.new}")
    for _ in range(ATTEMPTS):
        is_right = random.random() < QUALITY or not wrong
        yield one.problem.program if is_right else str(random.choice(wrong))


def _ours(root: Path, cases: list[tuple[Broken, list[str]]]) -> list[Repair]:
    """The workflow `fix-bug` of one instance; it forgets each fix, so that none is used again."""
    repairs = []
    with _house(root) as (house, client):
        for number, (one, programs) in enumerate(cases):
            rule = house.model.when(f"Case {number}.")
            for program in programs:
                rule.say(_block(one.program, program))
            repo = repository(root / f"case-{number}", one.files)
            before = len(house.model.requests)
            inputs = {
                "repo": str(repo), "command": COMMAND, "about": f"Case {number}.",
                "packages": [wheels.PYTEST], "edits": "blocks", "patches": 1,
            }  # fmt: skip
            body = {"workflow": "fix-bug", "inputs": inputs, "interactive": False}
            run = client.post("/api/runs", json=body).raise_for_status().json()["run"]
            view = follow_until(client, run, "end")
            prompts = [_size(each.body["messages"]) for each in house.model.requests[before:]]
            answers = [_block(one.program, text) for text in programs[: len(prompts)]]
            tokens = sum(prompts) + sum(map(len, answers)) / 4
            green = bool((view["outputs"] or {}).get("fixed"))
            repairs.append(Repair(tokens, max(prompts, default=0), green))
            ids = [fix["id"] for fix in client.get("/api/fixes").json()["fixes"]]
            if ids:
                client.post("/api/fixes/forget", json={"fixes": ids}).raise_for_status()
    return repairs


@contextmanager
def _house(root: Path) -> Iterator[tuple[House, httpx2.Client]]:
    """An agent service with a scripted model and no network for its packages."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    os.environ |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels.wheels())}
    model = ScriptedGateway()
    with served(model.app) as address:
        house = House(root / "state", model, address)
        house.state.mkdir()
        (house.state / "key").write_text(house.key, encoding="utf-8")
        (house.state / "service_key").write_text("sk-hearth-services", encoding="utf-8")
        with house.running(), house.client() as client:
            yield house, client


def _theirs(cases: list[tuple[Broken, list[str]]]) -> list[Repair]:
    """mini-swe-agent with its shipped prompts, and a model that looks, edits and tests."""
    work = []
    for one, programs in cases:
        now, steps = one.program, list(LOOK)
        for program in programs:
            steps.append(_command(now, program))
            now = program
        work.append({"files": one.files, "steps": steps})
    words = [str(python_of("mini-swe-agent")), str(Path(__file__).with_name("mini_side.py"))]
    ended = subprocess.run(
        words, input=json.dumps(work), capture_output=True, text=True, check=True
    )
    # It greets on its standard output.
    return [Repair(**one) for one in json.loads(ended.stdout[ended.stdout.rindex("[{") :])]


def _size(messages: list[dict[str, Any]]) -> float:
    return sum(len(message["content"]) for message in messages) / 4


def _changed(old: str, new: str) -> tuple[int, int, list[str]]:
    """The lines that change, from 0, and the ones that replace them."""
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    parts = [one for one in difflib.SequenceMatcher(None, before, after).get_opcodes()
             if one[0] != "equal"]  # fmt: skip
    if not parts:
        return 0, 0, []
    return parts[0][1], parts[-1][2], after[parts[0][3] : parts[-1][4]]


def _block(old: str, new: str) -> str:
    """A SEARCH/REPLACE block, with as many lines around as make its place unique."""
    lines = old.splitlines(keepends=True)
    start, end, inner = _changed(old, new)
    first, last = start, end
    while old.count("".join(lines[first:last])) != 1 and (first > 0 or last < len(lines)):
        first, last = max(0, first - 1), min(len(lines), last + 1)
    search = "".join(lines[first:last])
    replace = "".join([*lines[first:start], *inner, *lines[end:last]])
    return (
        f"This is the cause.\n\n{PROGRAM}\n```\n<<<<<<< SEARCH\n{search}=======\n{replace}"
        ">>>>>>> REPLACE\n```\n"
    )


def _command(old: str, new: str) -> str:
    """A command that makes the same change and runs the tests."""
    start, end, inner = _changed(old, new)
    text = "".join(inner)
    change = f"lines[{start}:{end}] = {text!r}.splitlines(True)"
    return (
        f"python3 - <<'EOF'\nlines = open({PROGRAM!r}).readlines()\n{change}\n"
        f"open({PROGRAM!r}, 'w').writelines(lines)\nEOF\npython3 {TESTS}"
    )


def remarks() -> list[str]:
    """Say what each side repaired, and its largest prompt."""
    return [
        f"Repaired: Hearth {SEEN['hearth green']}, mini-swe-agent {SEEN['mini green']}. The largest"
        f" prompt: {SEEN['hearth largest']} and {SEEN['mini largest']} tokens.",
        "Tokens are characters through four on both sides.",
    ]


def version() -> str:
    """Of mini-swe-agent."""
    words = [str(python_of("mini-swe-agent")), "-c", "from importlib.metadata import version as v;"
             "print(v('mini-swe-agent'))"]  # fmt: skip
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()[-1]


BENCHMARK = Benchmark(
    id="code.repair565",
    about=(
        f"{COUNT} mutants of HumanEval's solutions that their tests detect (seed 565), repaired by"
        " a scripted model half of whose changes are right, at most four for each: tokens of all"
        " prompts and answers for each repair. mini-swe-agent has its shipped prompts and the same"
        " changes; its model looks at the error and the file first. No prompt of Hearth may have"
        " more than 6,000 tokens."
    ),
    unit="tokens",
    peer="mini-swe-agent",
    peer_version=version,
    goal=3.0,
    measure=measure,
    lower_is_better=True,
    remarks=remarks,
)
