"""Talking with Hearth against a plain pipeline of pipecat, with the same engines, in turns."""

import asyncio
import contextlib
import functools
import statistics
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from itertools import pairwise

from tests.benchmarks.entry import Benchmark, Pair
from tests.benchmarks.voice.house import PATIENCE, QUESTIONS, STORY, House, Side, house

ROUNDS = 5
SIDES: tuple[Side, ...] = ("ours", "peer")
TALKERS = 3
SPOKEN_SECONDS = 1.0
"""How long the answer is listened to before somebody speaks over it."""

SILENCE_SECONDS = 0.8
"""After so long without a sound the answer has stopped."""

PIECE_SECONDS = 0.1
"""With a sound in so much time the answer is being spoken."""

LEAST_SECONDS = 0.0001
"""Less than this is not told apart."""

STAGE = {
    "endpointing": "from the last sound of the question until the voice detector is sure",
    "hearing": "until its words are there",
    "turn": "until the turn is over, and the agent or the model is asked",
    "model": "until the first words of the answer",
    "clause": "until there is enough of it to be spoken",
    "speaking": "until its first sound is made",
    "sending": "until that goes out",
}

GOAL = 0.8
"""The peer's seconds against ours: at most 1.25 times as long as the plain pipeline."""

Turn = tuple[float, dict[str, float]]
"""Seconds from voice to voice, and the stages that we tell of them."""


@functools.cache
def turns() -> list[dict[Side, list[Turn]]]:
    """Rounds of the same questions, each asked of both, the first one changing."""
    with house() as found:
        return [asyncio.run(one_round(found, number)) for number in range(ROUNDS)]


async def one_round(found: House, number: int) -> dict[Side, list[Turn]]:
    told: dict[Side, list[Turn]] = {"ours": [], "peer": []}
    for place, question in enumerate(QUESTIONS):
        for side in SIDES if (number + place) % 2 else reversed(SIDES):
            told[side].append(await turn(found, side, question))
    shown = {side: [round(seconds, 2) for seconds, _ in told[side]] for side in SIDES}
    sys.stderr.write(f"round {number + 1} of {ROUNDS}: {shown}\n")
    return told


async def turn(found: House, side: Side, question: str) -> Turn:
    async with found.caller(side) as caller:
        seconds = await caller.ask(found.voices[question])
        await asyncio.sleep(0.1)  # The stages come behind the sound.
        return seconds, caller.stages


def medians() -> list[Pair]:
    """One pair a round, each side's median; the stages of all our turns beside them."""
    every = [stages for told in turns() for _, stages in told["ours"] if stages]
    also = {name: statistics.median(one[name] for one in every) for name in every[0]}
    return [Pair(middle(told["ours"]), middle(told["peer"]), also=also) for told in turns()]


def middle(told: list[Turn]) -> float:
    return statistics.median(seconds for seconds, _ in told)


def slowest() -> list[Pair]:
    """The 95th percentile of all turns but one round's, for each round."""

    def percentile(side: Side, without: int) -> float:
        kept = [seconds for seconds, _ in turns_without(side, without)]
        return statistics.quantiles(kept, n=20, method="inclusive")[-1]

    return [Pair(percentile("ours", n), percentile("peer", n)) for n in range(ROUNDS)]


def stage(name: str) -> list[Pair]:
    """The median of a stage in all turns but one round's, for each round."""

    def middle_of(side: Side, without: int) -> float:
        kept = [stages[name] for _, stages in turns_without(side, without) if stages]
        return max(LEAST_SECONDS, statistics.median(kept))

    return [Pair(middle_of("ours", n), middle_of("peer", n)) for n in range(ROUNDS)]


def turns_without(side: Side, round_left_out: int) -> list[Turn]:
    """Those of the other rounds."""
    return [each for n, told in enumerate(turns()) if n != round_left_out for each in told[side]]


def interruptions() -> list[Pair]:
    """Both in turns: a story, spoken over after a second."""
    with house() as found:
        pairs = []
        for number in range(ROUNDS):
            order = SIDES if number % 2 else tuple(reversed(SIDES))
            told = {side: asyncio.run(interrupt(found, side)) for side in order}
            sys.stderr.write(f"round {number + 1} of {ROUNDS}: {told}\n")
            pairs.append(Pair(told["ours"], told["peer"]))
        return pairs


async def interrupt(found: House, side: Side) -> float:
    """Seconds from the first sound of a person to the last sound of the answer under way.

    The question that interrupts is longer than any answer needs to stop.
    """
    async with found.caller(side) as caller:
        await caller.ask(found.voices[STORY], PATIENCE)
        listening = time.monotonic() + SPOKEN_SECONDS
        await caller.silent_until(listening)
        while time.monotonic() - caller.loud[-1] > PIECE_SECONDS:  # Between two sentences.
            await caller.silent_until(time.monotonic() + PIECE_SECONDS)
        began = time.monotonic()
        spoken = await caller.speak(found.voices[QUESTIONS[1]])
        times = [began, *(at for at in caller.loud if at > began), spoken]
        gaps = (before for before, after in pairwise(times) if after - before >= SILENCE_SECONDS)
        return max(0.001, next(gaps, spoken) - began)


def crowds() -> list[Pair]:
    """Three people at once, both in turns; the median of their times."""
    with house() as found:
        pairs = []
        for number in range(ROUNDS):
            order = SIDES if number % 2 else tuple(reversed(SIDES))
            told = {side: asyncio.run(crowd(found, side)) for side in order}
            sys.stderr.write(f"round {number + 1} of {ROUNDS}: {told}\n")
            pairs.append(Pair(told["ours"], told["peer"]))
        return pairs


async def crowd(found: House, side: Side) -> float:
    """All are connected before one of them speaks."""
    async with contextlib.AsyncExitStack() as stack:
        people = [await stack.enter_async_context(found.caller(side)) for _ in range(TALKERS)]
        asked = (one.ask(found.voices[q]) for one, q in zip(people, QUESTIONS, strict=False))
        return statistics.median(await asyncio.gather(*asked))


def _benchmark(
    name: str, about: str, measure: Callable[[], list[Pair]], target: float | None
) -> Benchmark:
    return Benchmark(
        id=f"voice.{name}",
        about=(
            f"{about} Ours with the agent, runs, metrics and admission; the peer is a plain"
            " pipeline of pipecat with the same engines: Moonshine, SmolLM2-135M, Piper."
        ),
        unit="s",
        peer="pipecat, plain",
        peer_version=lambda: version("pipecat-ai"),
        goal=GOAL,
        measure=measure,
        lower_is_better=True,
        target=target,
    )


BENCHMARKS = (
    _benchmark(
        "v2v_p50",
        f"{len(QUESTIONS)} spoken questions in {ROUNDS} rounds, each a conversation of its own:"
        " seconds from the end of the question to the first sound of the answer, the median of a"
        " round. Beside it, the median of each stage.",
        medians,
        1.0,
    ),
    _benchmark(
        "v2v_p95",
        "The same turns: their 95th percentile, leaving out one round after the other.",
        slowest,
        1.5,
    ),
    _benchmark(
        "barge_in",
        "Somebody speaks over a story: seconds from the first sound of that person to the last"
        " sound of the story.",
        interruptions,
        0.4,
    ),
    _benchmark(
        "sessions",
        f"{TALKERS} people ask at the same time: seconds from voice to voice, the median of them.",
        crowds,
        2.0,
    ),
    *(
        _benchmark(
            f"stage_{name}",
            f"The turns of voice.v2v_p50: seconds {until}, the median, leaving out one round after"
            " the other.",
            functools.partial(stage, name),
            None,
        )
        for name, until in STAGE.items()
    ),
)
