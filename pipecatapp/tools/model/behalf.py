"""The caller on whose behalf a run calls models.

The gateway sends it, signed, with the request that starts the run; requests of the run repeat it,
so that the limits and the budget of that caller apply, also after a restart.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final
from urllib.parse import unquote

from hearth.service.names import BUILT_IN_KEYS
from pipecatapp.workflow import Context, Ledger
from pipecatapp.workflow.storage import Statement

CALLER: Final = "x-hearth-caller"
"""The header in which the gateway and the agent send the caller."""


def kept(told: str) -> Callable[[str], Sequence[Statement]]:
    """Return the statements written with the start of a run: its owner, and the header until its
    end.

    A run that the built-in key starts in a conversation of another key belongs to that key.
    """
    owner = "UPDATE run SET owner = ? WHERE id = ? AND ? != ''"
    return lambda run: [
        ("INSERT INTO behalf (run, told) VALUES (?, ?)", (run, told)),
        (owner, (owner_of(told), run, owner_of(told))),
    ]


def behalf_of(ctx: Context) -> Mapping[str, str]:
    """Return the headers for calls of this run to the gateway; none for runs of built-in keys."""
    header = header_of(ctx)
    return {CALLER: header} if header else {}


def owner_of(header: str) -> str:
    """Name of the key that a `CALLER` header states; empty for the built-in key or no header.

    The signature is not checked: only a caller that has a key of this service can send the header,
    and with such a key every conversation and note can be read anyway.
    """
    name = unquote(header.partition(";")[0])
    return "" if name in BUILT_IN_KEYS else name


def owner_of_run(ctx: Context) -> str:
    """Name of the key on whose behalf the run works; empty for the built-in key."""
    return owner_of(header_of(ctx))


def header_of(ctx: Context) -> str:
    """The `CALLER` header that the run was started with; empty for none."""
    ledger = ctx.services.get(Ledger)
    if not isinstance(ledger, Ledger):
        return ""
    rows = ledger.read.rows("SELECT told FROM behalf WHERE run = ?", (ctx.run,))
    return str(rows[0]["told"]) if rows else ""
