"""On whose behalf a run asks models.

The gateway tells it, signed, with the request that starts the run; what the run asks carries it on,
so that the limits and the budget of that person hold, also after a restart.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pipecatapp.workflow import Context, Ledger
from pipecatapp.workflow.ledger.values import Statement

CALLER: Final = "x-hearth-caller"
"""The header in which the gateway tells it, and is told it."""


def kept(told: str) -> Callable[[str], Sequence[Statement]]:
    """What is written with the beginning of a run; it is forgotten at the run's end."""
    return lambda run: [("INSERT INTO behalf (run, told) VALUES (?, ?)", (run, told))]


def behalf_of(ctx: Context) -> Mapping[str, str]:
    """The headers with which a call of this run asks the gateway; none for runs of the house."""
    ledger = ctx.services.get(Ledger)
    if not isinstance(ledger, Ledger):
        return {}
    rows = ledger.read.rows("SELECT told FROM behalf WHERE run = ?", (ctx.run,))
    return {CALLER: rows[0]["told"]} if rows else {}
