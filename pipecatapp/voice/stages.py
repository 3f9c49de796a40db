"""Where the time of a turn went, from the end of speech to the first sound of the answer."""

from itertools import pairwise
from typing import Final

MOMENTS: Final = ("silence", "stopped", "heard", "asked", "words", "clause", "sound", "spoken")
"""In order: the user fell silent; the voice detector detected it; the transcript was complete;
the turn ended and the agent was called; it wrote its first words; a clause was complete; its
first audio was synthesised; it was sent."""

STAGES: Final = ("endpointing", "hearing", "turn", "model", "clause", "speaking", "sending")
"""The time between each two of them. Their sum is the time from voice to voice."""


class Stages:
    """The moments of one turn, in seconds of one clock."""

    def __init__(self) -> None:
        self._at: dict[str, float] = {}

    def mark(self, moment: str, at: float) -> None:
        """Record a moment. Only the first of its kind counts, except before the agent is called: a
        user that continues to speak falls silent again. After that each moment needs the previous
        one: the last answer may still be spoken when this turn has begun.
        """
        number = MOMENTS.index(moment)
        if number > MOMENTS.index("heard") and (
            moment in self._at or MOMENTS[number - 1] not in self._at
        ):
            return
        self._at[moment] = at

    def seconds(self) -> dict[str, float] | None:
        """Stage -> seconds, which add up to `voice to voice`; None unless all of it happened."""
        if any(moment not in self._at for moment in MOMENTS):
            return None
        # A transcript may be there before the detector is sure: no stage is negative.
        times, latest = [], self._at["silence"]
        for moment in MOMENTS:
            latest = max(latest, self._at[moment])
            times.append(latest)
        return {stage: b - a for stage, (a, b) in zip(STAGES, pairwise(times), strict=True)}
