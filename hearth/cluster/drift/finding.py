"""A finding of a probe: its evidence, its risk, and the one step that repairs it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

Risk = Literal["safe", "disruptive", "data"]
"""safe: nothing that runs is touched. disruptive: something restarts or moves. data: something may
be lost, or a person has to decide."""

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
    """`words`: what will be done. `target`: the unit, role, path, job, peer or check to do it to.

    `machine`: where; empty for all of the cluster. `role`: the role that does it.
    """

    action: Action
    target: str
    words: str
    machine: str = ""
    role: str = ""


@dataclass(frozen=True)
class Finding:
    """`id` is the same in every probe, such as `unit:node1:consul`; one names a finding by it."""

    id: str
    evidence: str
    risk: Risk
    fix: Fix

    def as_dict(self) -> dict[str, Any]:
        """For a module's answer and for the journal."""
        return asdict(self)


def chosen(findings: list[Finding], named: list[str], kinds: Sequence[str] = ()) -> list[Finding]:
    """Those that are repaired: the safe ones, and the others that a person named.

    `kinds`: only findings whose id begins so, such as `stale`; without any, all.
    """
    return [
        f
        for f in findings
        if f.fix.action != "by_hand"
        and (f.risk == "safe" or f.id in named or "all" in named)
        and (not kinds or f.id.partition(":")[0] in kinds)
    ]
