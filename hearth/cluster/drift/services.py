"""Find stale entries of Consul's catalogue: entries whose services no longer run.

Nomad and the launchers of experts deregister their services. If a machine failed or got
another address, an entry can remain, even with a passing check: Consul before 1.15 (its change
16097) deregisters with the token that registered, which Nomad has revoked with the allocation.
Nomad's agents leave entries behind, too, when their address changes.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from hearth.cluster.consul import Consul, Instance
from hearth.cluster.drift.finding import Finding, Fix
from hearth.cluster.nomad import Nomad

LIVE: Final = {"pending", "running", "unknown"}
"""States of an allocation that may still have its services."""
OF_NOMAD: Final = re.compile(r"_nomad-task-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-")
OF_AGENTS: Final = re.compile("_nomad-(server|client)-")
OF_LAUNCHERS: Final = "llama-expert-"
"""Services that launchers register; the job of each bears the same name."""


def judge(consul: Consul, nomad: Nomad) -> Iterator[Finding]:
    """Entries on machines that run jobs, of allocations that do not run, or at former addresses.

    What is registered on a machine that is away is left as it is: what runs there is not known.
    """
    there = [one for service in consul.services() for one in consul.instances(service)]
    # Requested after the entries, so that Nomad already knows each service that has an entry.
    ready = {node.name: node.address for node in nomad.nodes() if node.status == "ready"}
    rows = nomad.session.call("GET", "allocations", params={"resources": "true"})
    live = [row for row in rows if row["ClientStatus"] in LIVE]
    for one in there:
        if one.node in ready and not _stands(one, live, ready[one.node]):
            yield Finding(
                f"stale:{one.node}:{one.id}",
                f"Consul lists {one.service} at {one.address}:{one.port} on {one.node}, and "
                "nothing of Nomad runs there",
                "safe",
                Fix("forget_service", f"{one.node}:{one.id}", "forget the entry"),
            )


def _stands(one: Instance, live: list[dict[str, Any]], address: str) -> bool:
    """Whether an allocation, or the agent at the machine's address, is behind it.

    So it is with what none of these registered.
    """
    if OF_AGENTS.match(one.id):
        return one.address == address
    if found := OF_NOMAD.match(one.id):
        return any(row["ID"] == found[1] for row in live)
    if one.service.startswith(OF_LAUNCHERS):
        place = (one.address, one.port)
        return any(row["JobID"] == one.service and place in _places(row) for row in live)
    return True


def _places(row: dict[str, Any]) -> list[tuple[str, int]]:
    """Address and port of each port that an allocation has."""
    shared = (row["AllocatedResources"] or {}).get("Shared") or {}
    return [(port["HostIP"], port["Value"]) for port in shared.get("Ports") or []]
