"""A synthetic world in which the true value of each prompt is known, and each run is noisy.

Uses only the standard library: the peer runs it in an environment of its own.
"""

import random
from typing import Final

RULES: Final = 24
SEED_RULES: Final = 5
BASE: Final = 0.5
SPREAD: Final = 0.25
"""Cases differ in their pass rates by so much to both sides."""
TRUE_CASES: Final = 1000


class World:
    """One task. A prompt is a list of rules; each rule adds its effect to the pass rate."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(f"world {seed}")
        good = [rng.uniform(0.04, 0.14) for _ in range(5)]
        bad = [-rng.uniform(0.03, 0.14) for _ in range(9)]
        effects = [*good, *bad, *(0.0 for _ in range(RULES - len(good) - len(bad)))]
        rng.shuffle(effects)
        self.effects = {self.rule(number): effect for number, effect in enumerate(effects)}
        self.first = "\n".join(rng.sample(sorted(self.effects), SEED_RULES))

    @staticmethod
    def rule(number: int) -> str:
        """The line of a rule, in words that no other rule has."""
        return f"Rule{number} alpha{number} beta{number}."

    def rate(self, text: str, case: str) -> float:
        """The probability that a run of a case passes."""
        value = BASE + sum(self.effects.get(line, 0.0) for line in {*text.split("\n")})
        shift = random.Random(f"case {case}").uniform(-SPREAD, SPREAD)
        return min(0.98, max(0.02, value + shift))

    def true(self, text: str) -> float:
        """The mean pass rate over many cases that no campaign uses."""
        return sum(self.rate(text, f"true-{n}") for n in range(TRUE_CASES)) / TRUE_CASES

    def mutated(self, text: str, rng: random.Random) -> str:
        """Add a rule that is missing, or remove one: what a model without insight proposes."""
        lines = [line for line in text.split("\n") if line]
        missing = sorted(self.effects.keys() - set(lines))
        if missing and (len(lines) < 2 or rng.random() < 0.6):
            return "\n".join([*lines, rng.choice(missing)])
        dropped = rng.choice(lines)
        return "\n".join(line for line in lines if line != dropped)
