"""A finding of a probe: its evidence, its risk, and the one step that repairs it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

Risk = Literal["safe", "disruptive", "data"]
"""safe: no running service is affected. disruptive: a service restarts or moves. data: data may be
lost, or the user has to decide."""

Action = Literal[
    "start_unit",
    "run_role",
    "replace_binary",
    "sync_clock",
    "remove_peer",
    "forget_machine",
    "make_eligible",
    "deregister_check",
    "forget_service",
    "revive_job",
    "register_job",
    "collect_garbage",
    "by_hand",
]
"""`start_unit`, `run_role`, `replace_binary` and `sync_clock` are done by heal_cluster.yaml on the
machine; `by_hand` by a person; the others by `hearth.cluster.drift.repair` through the agents."""


@dataclass(frozen=True)
class Fix:
    """A repair. `words` describes it. `target`: its unit, role, path, job, peer or check.

    `machine`: empty for the whole cluster. `role`: the role that does the repair.
    """

    action: Action
    target: str
    words: str
    machine: str = ""
    role: str = ""


@dataclass(frozen=True)
class Finding:
    """`id` is the same in every probe, such as `unit:node1:consul`; users name findings by it."""

    id: str
    evidence: str
    risk: Risk
    fix: Fix

    def as_dict(self) -> dict[str, Any]:
        """Return the finding for a module's result and for the journal."""
        return asdict(self)


def chosen(findings: list[Finding], named: list[str], kinds: Sequence[str] = ()) -> list[Finding]:
    """Return the findings to repair: the safe ones, and those that the user named.

    `kinds`: only findings whose id begins with one of them, such as `stale`; empty: all.
    """
    return [
        f
        for f in findings
        if f.fix.action != "by_hand"
        and (f.risk == "safe" or f.id in named or "all" in named)
        and (not kinds or f.id.partition(":")[0] in kinds)
    ]
