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
"""Services that launchers register; each has a job of the same name."""


def diagnose(consul: Consul, nomad: Nomad) -> Iterator[Finding]:
    """Find entries of allocations that do not run, and entries at former addresses.

    Entries of machines that do not answer are skipped, because their state is unknown.
    """
    instances = [
        instance for service in consul.services() for instance in consul.instances(service)
    ]
    # Requested after the entries, so that Nomad already knows each service that has an entry.
    ready = {node.name: node.address for node in nomad.nodes() if node.status == "ready"}
    rows = nomad.session.call("GET", "allocations", params={"resources": "true"})
    live = [row for row in rows if row["ClientStatus"] in LIVE]
    for instance in instances:
        if instance.node in ready and not _is_current(instance, live, ready[instance.node]):
            yield Finding(
                f"stale:{instance.node}:{instance.id}",
                f"Consul lists {instance.service} at {instance.address}:{instance.port} on "
                f"{instance.node}, and nothing of Nomad runs there",
                "safe",
                Fix("forget_service", f"{instance.node}:{instance.id}", "forget the entry"),
            )


def _is_current(instance: Instance, live: list[dict[str, Any]], address: str) -> bool:
    """Return whether an entry belongs to a live allocation or to an agent at the machine's address.

    True for entries that neither Nomad nor a launcher registered.
    """
    if OF_AGENTS.match(instance.id):
        return instance.address == address
    if match := OF_NOMAD.match(instance.id):
        return any(row["ID"] == match[1] for row in live)
    if instance.service.startswith(OF_LAUNCHERS):
        socket = (instance.address, instance.port)
        return any(row["JobID"] == instance.service and socket in _sockets(row) for row in live)
    return True


def _sockets(row: dict[str, Any]) -> list[tuple[str, int]]:
    """Return address and number of each port of an allocation."""
    shared = (row["AllocatedResources"] or {}).get("Shared") or {}
    return [(port["HostIP"], port["Value"]) for port in shared.get("Ports") or []]
