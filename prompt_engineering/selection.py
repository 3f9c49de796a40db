"""Select the parent of the next candidate.

Each method has a distribution that follows from the archive, and a seeded generator draws from it:
the same seed and archive give the same parent.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, get_args

from prompt_engineering.archive import Candidate
from prompt_engineering.estimates import posterior_mean
from prompt_engineering.genome import distance

Method = Literal[
    "pareto", "thompson", "tournament", "novelty", "map-elites", "clade", "weighted", "random"
]
METHODS: Final[tuple[Method, ...]] = get_args(Method)
TOURNAMENT: Final = 3
"""Candidates that are drawn, with replacement, for one tournament."""
NEIGHBOURS: Final = 5
"""Nearest candidates that the novelty of a candidate is averaged over."""
CLADE_PRIOR: Final = 4.0
"""Runs that the rate of the parent counts for in the estimate of a clade."""
LENGTH_CELL: Final = 200
"""Characters of one cell of MAP-Elites."""

Weights = Mapping[str, float]


def select(method: Method, pool: Sequence[Candidate], rng: random.Random) -> Candidate:
    """Draw one candidate of the pool, in which at least one candidate must be."""
    if method == "thompson":
        return thompson(pool, rng)
    if method == "tournament":
        return tournament(pool, rng)
    weights = WEIGHTS[method](pool)
    return rng.choices(pool, [weights[one.id] for one in pool])[0]


def thompson(pool: Sequence[Candidate], rng: random.Random) -> Candidate:
    """Draw a pass rate for each candidate from its Beta posterior; the highest one wins."""
    return max(pool, key=lambda one: rng.betavariate(1 + one.passes, 1 + one.runs - one.passes))


def tournament(pool: Sequence[Candidate], rng: random.Random) -> Candidate:
    """Draw three candidates with replacement; the best mean wins, the oldest one of equal ones."""
    order = {one.id: place for place, one in enumerate(pool)}
    drawn = rng.choices(pool, k=TOURNAMENT)
    return max(drawn, key=lambda one: (one.mean, -order[one.id]))


def pareto(pool: Sequence[Candidate]) -> Weights:
    """Weight by the number of cases that a candidate is best on, dominated candidates left out.

    L. A. Agrawal and others, "GEPA: reflective prompt evolution can outperform reinforcement
    learning", algorithm 2 (2025).
    """
    fronts = _fronts(pool)
    members = set().union(*fronts) if fronts else set()
    for candidate in sorted(pool, key=lambda one: one.mean):
        others = members - {candidate.id}
        held = [front for front in fronts if candidate.id in front]
        if held and all(front & others for front in held):
            members = others
    counts = {one.id: sum(one.id in front for front in fronts) for one in pool}
    weights = {id: float(count if id in members else 0) for id, count in counts.items()}
    return weights if any(weights.values()) else uniform(pool)


def _fronts(pool: Sequence[Candidate]) -> list[set[str]]:
    """The ids of the best candidates on each case that some candidate was run on."""
    rates: dict[str, dict[str, float]] = defaultdict(dict)
    for candidate in pool:
        for case, score in candidate.select.items():
            rates[case][candidate.id] = score.rate
    best = ((found, max(found.values())) for found in rates.values())
    return [{id for id, rate in found.items() if rate == top} for found, top in best]


def novelty(pool: Sequence[Candidate]) -> Weights:
    """Weight by the mean distance of the text to the nearest other texts."""
    if len(pool) == 1:
        return uniform(pool)
    found = {}
    for one in pool:
        others = (other for other in pool if other.id != one.id)
        near = sorted(distance(one.genome.text, other.genome.text) for other in others)
        found[one.id] = sum(near[:NEIGHBOURS]) / len(near[:NEIGHBOURS])
    return found if any(found.values()) else uniform(pool)


def map_elites(pool: Sequence[Candidate]) -> Weights:
    """Weight the best candidate of each cell equally.

    A cell is a range of text lengths and a number of examples. J.-B. Mouret and J. Clune,
    "Illuminating search spaces by mapping elites" (2015).
    """
    elites: dict[tuple[int, int], Candidate] = {}
    for one in pool:
        elite = elites.setdefault(cell(one), one)
        if one.mean > elite.mean:
            elites[cell(one)] = one
    chosen = {one.id for one in elites.values()}
    return {one.id: float(one.id in chosen) for one in pool}


def cell(candidate: Candidate) -> tuple[int, int]:
    """Return the cell of a candidate: length of its text, and how many examples it has."""
    text = candidate.genome.text
    return len(text) // LENGTH_CELL, text.count("Example: ")


def clade(pool: Sequence[Candidate]) -> Weights:
    """Weight by the pass rate of a candidate and its descendants, shrunk to the parent's mean.

    W. Wang and others, "Huxley-Gödel machine" (2025): what a candidate leads to is a better guide
    than its own score.
    """
    by_id = {one.id: one for one in pool}
    passes, runs = ({one.id: getattr(one, name) for one in pool} for name in ("passes", "runs"))
    for one in reversed(pool):
        for parent in {*one.parents} & by_id.keys():
            passes[parent] += passes[one.id]
            runs[parent] += runs[one.id]
    found = {}
    for one in pool:
        known = [by_id[parent].mean for parent in one.parents if parent in by_id]
        prior = sum(known) / len(known) if known else 0.5
        found[one.id] = (passes[one.id] + CLADE_PRIOR * prior) / (runs[one.id] + CLADE_PRIOR)
    return found


def weighted(pool: Sequence[Candidate]) -> Weights:
    """Weight by the posterior mean, divided by one more than the number of children.

    J. Zhang and others, "Darwin Gödel machine" (2025), section 3.
    """
    children: dict[str, int] = defaultdict(int)
    for one in pool:
        for parent in one.parents:
            children[parent] += 1
    return {one.id: posterior_mean(one.passes, one.runs) / (1 + children[one.id]) for one in pool}


def uniform(pool: Sequence[Candidate]) -> Weights:
    """Weight all candidates equally."""
    return {one.id: 1.0 for one in pool}


WEIGHTS: Final[Mapping[str, Callable[[Sequence[Candidate]], Weights]]] = {
    "pareto": pareto,
    "novelty": novelty,
    "map-elites": map_elites,
    "clade": clade,
    "weighted": weighted,
    "random": uniform,
}
