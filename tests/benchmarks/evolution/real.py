"""Improve a prompt of SmolLM2 (135M) by a campaign on real runs, and measure it on held-out cases.

The task: answer a question with exactly one of three words. Nothing but the prompt forces the
form: no grammar, and an answer may have eight tokens. The first prompt tells a story instead.
"""

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import httpx2
import structlog

from hearth.service.version import hearth_version
from pipecatapp.app import build_app
from pipecatapp.client import Client
from pipecatapp.settings import Settings
from prompt_engineering.campaign import Campaign, Result
from prompt_engineering.cases import Case, Check, case_file
from prompt_engineering.evaluation import RunEvaluator
from prompt_engineering.gate import Gate
from prompt_engineering.genome import Genome
from prompt_engineering.opening import Options, campaign_of
from tests.benchmarks.entry import Benchmark, Pair
from tests.benchmarks.gateway_tokens import HOST, KEY, running
from tests.conftest import served

WORDS: Final = ("Yes", "No", "Maybe")
PROMPT: Final = (
    "You are a patient teacher who likes to tell stories.\n"
    "Answer with exactly one of the three words Yes, No or Maybe."
)
WORKFLOW: Final = """kind: workflow
id: one-of-three
inputs: {text: text}
steps:
  - id: reply
    use: llm
    model: default
    prompt: [one-of-three]
    with: {text: "{{ inputs.text }}", temperature: 0, max_tokens: 8}
outputs:
  text: "{{ reply.text }}"
"""
THINGS: Final = {
    "grass": "green",
    "snow": "white cold",
    "fire": "hot bright",
    "a lemon": "yellow sour",
    "honey": "sweet sticky",
    "coal": "black",
    "a needle": "thin sharp",
    "a whale": "large heavy",
    "an ant": "small",
    "iron": "hard heavy",
    "the sun": "hot bright large round",
    "ice": "cold hard",
    "a ball": "round",
    "sugar": "sweet white",
    "a feather": "soft",
    "midnight": "dark",
}
"""What is true of a thing; of the other words nothing is."""
ADJECTIVES: Final = ("green", "hot", "cold", "sweet", "sour", "heavy", "round", "sharp", "dark")
OPEN: Final = ("rain", "snow", "get cold", "be a good day", "be loud here", "be dark by five")
WHEN: Final = ("tomorrow", "next week", "on Sunday", "in March")
HELD_OUT: Final = 50
BLOCKS: Final = 5
CANDIDATES: Final = 40
BUDGET: Final = 200_000
"""Tokens; about 2000 runs."""
SEED: Final = 1
LONGEST: Final = 20.0
"""Minutes that the campaign may take on two cores."""


@dataclass(frozen=True)
class Measured:
    """One campaign. `old` and `new`: for each block of held-out cases, how many passed."""

    result: Result
    gate: Gate | None
    candidates: int
    text: str
    minutes: float
    size: int
    old: tuple[int, ...]
    new: tuple[int, ...]


def questions() -> list[Case]:
    """All cases, in an order that depends on their ids only."""
    answers = {
        f"Is {thing} {word}?": "Yes" if word in true.split() else "No"
        for thing, true in THINGS.items()
        for word in ADJECTIVES
    } | {f"Will it {what} {when}?": "Maybe" for what in OPEN for when in WHEN}
    check = (Check(one_of=WORDS),)
    return [
        Case(
            id=f"question-{number:03}", workflow="one-of-three", inputs={"text": text},
            checks=check, answer=answer,
        )
        for number, (text, answer) in enumerate(sorted(answers.items()))
    ]  # fmt: skip


def divided(cases: list[Case]) -> tuple[list[Case], list[Case]]:
    """Return the cases of the campaign, and those that it never sees: every third one."""
    held_out = cases[::3][:HELD_OUT]
    unseen = {case.id for case in held_out}
    return [case for case in cases if case.id not in unseen], held_out


@cache
def measured(candidates: int = CANDIDATES, held_out: int = HELD_OUT) -> Measured:
    """Run the campaign on the real model; smaller numbers are for a look at it."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cases, unseen = divided(questions())
        with running(folder, None) as (_, gateway), agent(folder / "state", gateway, cases) as url:
            return asyncio.run(_measured(url, folder / "state", candidates, unseen[:held_out]))


@contextmanager
def agent(state: Path, gateway: int, cases: Sequence[Case]) -> Iterator[str]:
    """The agent service with the workflow, its first prompt and the cases; its address."""
    for file, text in (
        ("key", KEY),
        ("service_key", KEY),
        ("workflows/one-of-three.yaml", WORKFLOW),
        ("prompts/one-of-three.md", f"---\ntags: [one-of-three]\n---\n{PROMPT}\n"),
        ("evolution/cases/questions.yaml", case_file(cases)),
    ):
        (state / file).parent.mkdir(parents=True, exist_ok=True)
        (state / file).write_text(text, encoding="utf-8")
    settings = {"state_dir": state, "gateway_url": f"http://{HOST}:{gateway}/v1"}
    settings |= {"drain_seconds": 1, "services": {"moe-gateway": f"http://{HOST}:{gateway}"}}
    with served(build_app(Settings.model_validate(settings))) as address:
        yield address


async def _measured(
    address: str, state: Path, candidates: int, held_out: Sequence[Case]
) -> Measured:
    options = Options(
        prompt="one-of-three", state_dir=state, candidates=candidates, budget=BUDGET, seed=SEED
    )
    async with client_of(address) as client:
        began = time.monotonic()
        campaign = await campaign_of(client, options)
        result = await campaign.run()
        minutes = (time.monotonic() - began) / 60
        shipped = _shipped(campaign, result)
        evaluator, size = RunEvaluator(client), max(1, len(held_out) // BLOCKS)
        old, new = [0] * BLOCKS, [0] * BLOCKS
        for place, case in enumerate(held_out[: size * BLOCKS]):
            for passed, genome in ((old, campaign.settings.genome), (new, shipped)):
                passed[place // size] += (await evaluator.evaluate(case, genome)).passed
    return Measured(
        result=result,
        gate=campaign.archive.read("gate", Gate),
        candidates=len(campaign.archive.candidates),
        text=shipped.text,
        minutes=minutes,
        size=size,
        old=tuple(old),
        new=tuple(new),
    )


def _shipped(campaign: Campaign, result: Result) -> Genome:
    """Return the proposed prompt; the first one where the gate did not pass."""
    if result.best is None or result.decision != "promote":
        return campaign.settings.genome
    return campaign.archive.candidate(result.best).genome


@asynccontextmanager
async def client_of(address: str) -> AsyncIterator[Client]:
    """The client of the agent service."""
    headers = {"authorization": f"Bearer {KEY}"}
    async with httpx2.AsyncClient(
        base_url=address, headers=headers, timeout=120, trust_env=False
    ) as http:
        yield Client(http, address, here=False)


def measure() -> list[Pair]:
    """Pass rates on the held-out cases, each pair without one of the blocks.

    With all but one block, the first prompt is unlikely to pass none; one pass is added to both
    sides so that the ratio exists then, too.
    """
    found = measured()
    return [
        Pair(_rate(found.new, found.size, n), _rate(found.old, found.size, n))
        for n in range(BLOCKS)
    ]


def _rate(passed: Sequence[int], size: int, without: int) -> float:
    left = [count for number, count in enumerate(passed) if number != without]
    return (sum(left) + 1) / (size * len(left) + 1)


def remarks() -> list[str]:
    """Return the decision of the gate, the times and the prompt that was found."""
    found = measured()
    return [_gate_text(found), f"The prompt that was found: {found.text!r}"]


def _gate_text(found: Measured) -> str:
    gate = found.gate
    shown = (
        f"Gate: {gate.decision}, {gate.wins} wins, {gate.losses} losses, e = {gate.e:.1f},"
        f" cost {gate.cost:.2f}"
        if gate
        else "The gate did not run"
    )
    total = found.size * BLOCKS
    return (
        f"{shown}. {found.candidates} candidates, {found.result.tokens} tokens,"
        f" {found.minutes:.1f} minutes (goal: {LONGEST:g}). Held-out cases passed:"
        f" {sum(found.new)} of {total}, with the first prompt {sum(found.old)}."
    )


BENCHMARK: Final = Benchmark(
    id="evolve.real",
    about=(
        "The share of held-out questions that SmolLM2 (135M) answers with exactly one of three"
        " words, without a grammar: with the prompt that a campaign of mechanical changes on real"
        " runs proposes, against the prompt that it began with."
    ),
    unit="pass rate",
    peer="the first prompt",
    peer_version=hearth_version,
    goal=2.0,
    measure=measure,
    remarks=remarks,
)


if __name__ == "__main__":
    # Candidates and held-out cases, for a look at a small campaign.
    numbers: Any = map(int, sys.argv[1:])
    small = measured(*numbers)
    sys.stdout.write(json.dumps({"old": small.old, "new": small.new, "size": small.size}) + "\n")
    sys.stdout.write(_gate_text(small) + f"\n{small.text}\n")
