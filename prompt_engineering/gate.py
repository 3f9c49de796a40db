"""The gate: a paired test of the old and the new prompt on cases that the search never used.

The evidence is an e-process. Each pair in which only one prompt passes multiplies it by 3/2 when
the new prompt passes and by 1/2 when the old one does. If the new prompt is not better, its
expectation never grows, so by Ville's inequality it reaches 20 with probability 1/20 at most,
however often it is looked at. A. Ramdas and others, "Game-theoretic statistics and safe anytime-
valid inference", Statistical Science 38 (2023).
"""

from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from prompt_engineering.genome import Id

PROMOTE_AT: Final = 20.0
GIVE_UP_BELOW: Final = 0.05
BET: Final = 0.5
LEAST_CASES: Final = 40
"""Gate cases that must exist: eight wins are needed, and few pairs are discordant."""
MOST_COST: Final = 1.2
"""Tokens of the new prompt's runs, relative to those of the old one's."""

Decision = Literal["open", "promote", "give_up", "too_expensive", "exhausted", "no_budget"]


class Pair(BaseModel):
    """One case, run once with each prompt."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    case: Id
    old: bool
    new: bool
    old_tokens: int = Field(ge=0)
    new_tokens: int = Field(ge=0)
    runs: tuple[str, str] = ("", "")
    """The run with the old prompt, and the one with the new prompt."""


class Gate(BaseModel):
    """All pairs of one candidate so far. `cases` are the ids that the gate may use, in order."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    candidate: Id
    cases: tuple[Id, ...]
    pairs: tuple[Pair, ...] = ()
    decision: Decision = "open"

    @property
    def wins(self) -> int:
        """Pairs in which only the new prompt passed."""
        return sum(pair.new and not pair.old for pair in self.pairs)

    @property
    def losses(self) -> int:
        """Pairs in which only the old prompt passed."""
        return sum(pair.old and not pair.new for pair in self.pairs)

    @property
    def e(self) -> float:
        """The evidence against "the new prompt is not better"."""
        return evidence(self.wins, self.losses)

    @property
    def cost(self) -> float:
        """Tokens of the new prompt's runs divided by those of the old one's; 1 without pairs."""
        old = sum(pair.old_tokens for pair in self.pairs)
        return sum(pair.new_tokens for pair in self.pairs) / old if old else 1.0

    @property
    def tokens(self) -> int:
        """Tokens of all pairs."""
        return sum(pair.old_tokens + pair.new_tokens for pair in self.pairs)

    def with_pair(self, pair: Pair) -> "Gate":
        """Return the gate after one more pair, with the decision that follows."""
        after = self.model_copy(update={"pairs": (*self.pairs, pair)})
        return after.model_copy(update={"decision": after._decided()})

    def _decided(self) -> Decision:
        if self.e >= PROMOTE_AT:
            return "promote" if self.cost <= MOST_COST else "too_expensive"
        if self.e < GIVE_UP_BELOW:
            return "give_up"
        return "exhausted" if len(self.pairs) >= len(self.cases) else "open"


def evidence(wins: int, losses: int) -> float:
    """Return the value of the e-process after these discordant pairs."""
    return float((1 + BET) ** wins * (1 - BET) ** losses)
