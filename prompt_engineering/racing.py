"""Evaluate a candidate on more and more cases, and stop when it cannot be good."""

from collections.abc import Sequence
from statistics import median
from typing import Final

from prompt_engineering.archive import Candidate
from prompt_engineering.cases import Case
from prompt_engineering.estimates import interval

STAGES: Final = (3, 10)
"""Cases after which the race may stop; the last stage is all of `select`."""
BOUND_SCORE: Final = 0.674490
"""Quantile of the normal distribution for an upper bound that holds with 75 %: a good candidate
that is stopped costs less than the runs of all the bad ones that are not."""


def next_case(candidate: Candidate, select: Sequence[Case]) -> Case | None:
    """Return the first case that the candidate was not run on."""
    return next((case for case in select if case.id not in candidate.select), None)


def hopeless(candidate: Candidate, pool: Sequence[Candidate]) -> bool:
    """Whether the race stops here: the candidate's upper bound is below the pool's median.

    Looked at only at the end of a stage. `pool` are the candidates that finished the race.
    """
    if candidate.runs not in STAGES or not pool:
        return False
    upper = interval(candidate.passes, candidate.runs, BOUND_SCORE)[1]
    return upper < median(one.mean for one in pool)
