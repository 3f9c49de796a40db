"""The distribution of each selection method, at a fixed seed and archive."""

import math
import random
from collections import Counter
from collections.abc import Mapping
from itertools import product

import pytest

from prompt_engineering.archive import Candidate, CaseScore
from prompt_engineering.genome import Genome
from prompt_engineering.selection import METHODS, Method, select

DRAWS = 4000
CRITICAL = {1: 10.83, 2: 13.82, 3: 16.27, 4: 18.47}
"""Quantiles of the chi-squared distribution at 0.999, by degrees of freedom."""


def candidate(id: str, text: str, passed: str, *parents: str) -> Candidate:
    """A candidate that passed (`1`) or failed (`0`) the cases in their order."""
    scores = {f"case-{n}": CaseScore(passes=int(one), runs=1) for n, one in enumerate(passed)}
    genome = Genome(prompt="p", tags=("p",), text=text)
    return Candidate(
        id=id, genome=genome, parents=parents, select=scores, status="finished"
    )  # fmt: skip


POOL = [
    candidate("a", "one two three", "1100"),
    candidate("b", "one two four", "1010", "a"),
    candidate("c", "five six seven eight", "0111", "a"),
    candidate("d", "nine " * 60, "0100", "b"),
]
"""d is dominated by a and c; c is the best one."""


def thompson() -> dict[str, float]:
    """Probabilities that a draw of each Beta posterior is the largest, by the midpoint rule."""
    shapes = {one.id: (1 + one.passes, 1 + one.runs - one.passes) for one in POOL}
    steps = 2000
    found = dict.fromkeys(shapes, 0.0)
    below = dict.fromkeys(shapes, 0.0)
    for step in range(steps):
        x = (step + 0.5) / steps
        density = {id: beta_density(x, *shape) / steps for id, shape in shapes.items()}
        for id in shapes:
            others = [below[other] + density[other] / 2 for other in shapes if other != id]
            chance = density[id]
            for part in others:
                chance *= part
            found[id] += chance
        below = {id: below[id] + density[id] for id in shapes}
    return found


def beta_density(x: float, a: int, b: int) -> float:
    """Density of a Beta distribution."""
    constant = math.gamma(a + b) / (math.gamma(a) * math.gamma(b))
    return constant * x ** (a - 1) * (1 - x) ** (b - 1)


def tournaments() -> dict[str, float]:
    """Count the winners of all tournaments of three."""
    rank = {"c": 3, "a": 2, "b": 1, "d": 0}
    won = Counter(max(drawn, key=rank.__getitem__) for drawn in product("abcd", repeat=3))
    return {id: won[id] / 64 for id in "abcd"}


EXPECTED: Mapping[Method, Mapping[str, float]] = {
    # Best on case 0: a, b; on case 1: a, c, d; on case 2: b, c; on case 3: c. In the order of their
    # means, d and then a are dominated: b and c remain on each of their cases.
    "pareto": {"a": 0, "b": 2 / 5, "c": 3 / 5, "d": 0},
    "thompson": thompson(),
    "tournament": tournaments(),
    # Words and pairs: a and b share 3 of 7; all others share nothing.
    "novelty": {
        "a": (4 / 7 + 2) / (2 * (4 / 7 + 2) + 6),
        "b": (4 / 7 + 2) / (2 * (4 / 7 + 2) + 6),
        "c": 3 / (2 * (4 / 7 + 2) + 6),
        "d": 3 / (2 * (4 / 7 + 2) + 6),
    },
    # Two cells, below 200 characters and above: c and d.
    "map-elites": {"a": 0, "b": 0, "c": 1 / 2, "d": 1 / 2},
    # Passes and runs of the clades: a 8/16, b 3/8, c 3/4, d 1/4; 4 more at the
    # parent's mean, or 0.5.
    "clade": {"a": 10 / 20, "b": 5 / 12, "c": 5 / 8, "d": 3 / 8},
    # Means 3/6, 3/6, 4/6, 2/6; a has two children, b one.
    "weighted": {"a": 3 / 18, "b": 3 / 12, "c": 4 / 6, "d": 2 / 6},
    "random": dict.fromkeys("abcd", 1.0),
}


@pytest.mark.proves("004-02")
@pytest.mark.parametrize("method", METHODS)
def test_choices_are_distributed_as_specified(method: Method) -> None:
    """Chi-squared test at the level 0.001; what has no probability is never chosen."""
    rng = random.Random(2027)
    weights = EXPECTED[method]
    total = sum(weights.values())

    drawn = Counter(select(method, POOL, rng).id for _ in range(DRAWS))

    possible = {id: weight / total * DRAWS for id, weight in weights.items() if weight}
    assert drawn.keys() <= possible.keys()
    statistic = sum((drawn[id] - mean) ** 2 / mean for id, mean in possible.items())
    assert statistic < CRITICAL[len(possible) - 1]


@pytest.mark.parametrize("method", METHODS)
def test_seed_decides_the_choice(method: Method) -> None:
    """A campaign that is resumed selects the same parents."""
    one, other = (
        [select(method, POOL, random.Random(seed)).id for seed in range(20)] for _ in range(2)
    )

    assert one == other


@pytest.mark.parametrize("method", METHODS)
def test_a_single_candidate_without_runs_is_selected(method: Method) -> None:
    """The first step of each campaign."""
    assert select(method, [candidate("a", "one", "")], random.Random(0)).id == "a"
