"""The e-process of the gate: when it promotes, gives up, and how often it is wrong."""

import random

import pytest

from prompt_engineering.gate import PROMOTE_AT, Gate, Pair, evidence

CASES = tuple(f"case-{number}" for number in range(60))


def after(outcomes: str, *, new_tokens: int = 10) -> Gate:
    """The gate after pairs: `w` only the new prompt passes, `l` only the old one, `t` both."""
    gate = Gate(candidate="c00001", cases=CASES)
    for case, outcome in zip(CASES, outcomes, strict=False):
        pair = Pair(
            case=case, old=outcome in "lt", new=outcome in "wt", old_tokens=10,
            new_tokens=new_tokens,
        )  # fmt: skip
        gate = gate.with_pair(pair)
    return gate


@pytest.mark.parametrize(
    ("outcomes", "decision"),
    [
        ("w" * 7, "open"),
        ("w" * 8, "promote"),
        ("t" * 20 + "w" * 8, "promote"),
        ("wwwwlwwwww", "open"),
        ("wwwwlwwwwww", "promote"),
        ("llll", "open"),
        ("lllll", "give_up"),
        ("t" * 60, "exhausted"),
    ],
)
def test_decision_after_pairs(outcomes: str, decision: str) -> None:
    """Eight wins are enough; a loss costs almost two of them; ties cost only runs."""
    assert after(outcomes).decision == decision


@pytest.mark.parametrize(("tokens", "decision"), [(12, "promote"), (13, "too_expensive")])
def test_prompt_that_costs_more_than_a_fifth_more_is_not_proposed(
    tokens: int, decision: str
) -> None:
    """Long prompts often win; a home pays for each token with time."""
    assert after("w" * 8, new_tokens=tokens).decision == decision


def test_prompt_that_is_not_better_is_seldom_promoted() -> None:
    """With fair pairs at any stop: at most 1 of 20 by Ville's inequality."""
    rng, promoted, trials = random.Random(7), 0, 2000
    for _ in range(trials):
        wins = losses = 0
        for _ in range(400):
            wins, losses = (wins + 1, losses) if rng.random() < 0.5 else (wins, losses + 1)
            if evidence(wins, losses) >= PROMOTE_AT:
                promoted += 1
                break

    assert 0 < promoted / trials <= 0.05
