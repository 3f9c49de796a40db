"""Estimates of a pass rate from passes and runs: the Beta posterior with a uniform prior."""

import math
from typing import Final

SCORE_95: Final = 1.959964
"""Quantile of the normal distribution for a two-sided interval of 95 %."""


def posterior_mean(passes: float, runs: float) -> float:
    """Return the mean of Beta(1 + passes, 1 + runs - passes), Laplace's rule of succession."""
    return (passes + 1) / (runs + 2)


def interval(passes: int, runs: int, score: float = SCORE_95) -> tuple[float, float]:
    """Return Wilson's interval of a pass rate, by default that of 95 %: (0, 1) without runs.

    E. B. Wilson, "Probable inference, the law of succession, and statistical inference", 1927.
    """
    if runs == 0:
        return 0.0, 1.0
    rate, square = passes / runs, score**2
    middle = (rate + square / (2 * runs)) / (1 + square / runs)
    spread = math.sqrt(rate * (1 - rate) / runs + square / (4 * runs**2))
    half = score * spread / (1 + square / runs)
    return max(0.0, middle - half), min(1.0, middle + half)
