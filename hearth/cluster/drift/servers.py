"""Probe the servers: peers of both quorums, clients, tokens, checks."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from hearth.cluster.client import Peer
from hearth.cluster.consul import Consul
from hearth.cluster.drift.finding import Finding, Fix, Risk
from hearth.cluster.drift.machines import Machine
from hearth.cluster.endpoint import Session
from hearth.cluster.errors import Denied
from hearth.cluster.nomad import Nomad

Product = Literal["consul", "nomad"]


def peers(
    product: Product, found: Sequence[Peer], machines: list[Machine], serving: set[str]
) -> Iterator[Finding]:
    """Find peers that are not servers of the inventory, and servers that are not peers.

    `serving`: the addresses at which a server runs.
    """
    wanted = {machine.address: machine for machine in machines if machine.server}
    there = {machine.address: machine for machine in machines if machine.report}
    present = {peer.address.rpartition(":")[0].strip("[]"): peer for peer in found}
    for address, peer in present.items():
        if address not in wanted:
            fix = Fix("remove_peer", f"{product}:{peer.id}", "take it out of the quorum")
            if address in serving and address in there:
                name = there[address].name
                fix = Fix("run_role", product, f"let it step down (role {product})", name, product)
            yield Finding(
                f"peer:{product}:{peer.id}",
                f"{peer.name} ({peer.address}) is in the quorum of {product} and no server of the "
                "inventory",
                "disruptive",
                fix,
            )
    for address, machine in wanted.items():
        if address not in present:
            yield Finding(
                f"peer:{product}:{machine.name}",
                f"{machine.name} ({address}) should be a server of {product} and is not in its "
                "quorum",
                "disruptive",
                Fix("run_role", product, f"let it join (role {product})", machine.name, product),
            )


def serving_consul(consul: Consul) -> set[str]:
    """Return the addresses of the running servers of Consul."""
    return {m.address for m in consul.members() if m.alive and m.tags.get("role") == "consul"}


def serving_nomad(nomad: Nomad) -> set[str]:
    """Return the addresses of the running servers of Nomad."""
    members = nomad.session.call("GET", "agent/members")["Members"]
    return {str(member["Addr"]) for member in members if member["Status"] == "alive"}


def nodes(nomad: Nomad, machines: list[Machine]) -> Iterator[Finding]:
    """Find machines that answer, but take no jobs."""
    found = {node.name: node for node in nomad.nodes() if node.status != "down"}
    for machine in machines:
        node = found.get(machine.name)
        if machine.report is None:
            continue
        if node is None:
            yield Finding(
                f"node:{machine.name}",
                f"{machine.name} answers, but Nomad has no ready client of that name",
                "disruptive",
                Fix("run_role", "nomad", "run the role nomad there", machine.name, "nomad"),
            )
        elif node.eligible != "eligible" and not node.drains:
            yield Finding(
                f"node:{machine.name}",
                f"{machine.name} is ready, and marked as taking no jobs",
                "disruptive",
                Fix("make_eligible", node.id, "let it take jobs again"),
            )


def token(product: Product, session: Session, *, days: float) -> Iterator[Finding]:
    """Find a management token that is invalid or expires within `days`."""
    role_fix = Fix("by_hand", product, "run playbook.yaml: it states how to set the token again")
    try:
        itself: dict[str, Any] = session.call("GET", "acl/token/self")
    except Denied:
        yield Finding(f"token:{product}", f"the token of {product} does not work", "data", role_fix)
        return
    end = itself.get("ExpirationTime")
    if end and datetime.fromisoformat(end) - datetime.now(UTC) < timedelta(days=days):
        yield Finding(f"token:{product}", f"the token of {product} ends {end}", "data", role_fix)


def checks(consul: Consul, machines: list[Machine]) -> Iterator[Finding]:
    """Find critical checks of agents and of services."""
    alive = {member.name for member in consul.members() if member.alive}
    ours = {machine.name for machine in machines}
    asleep = {m.name for m in machines if m.sleeps and m.report is None}
    for check in consul.checks():
        if check.node in asleep:
            continue
        what = f"{check.service or check.name} on {check.node}"
        output = check.output.strip().splitlines()[:1]
        evidence = f"{what} is critical: {output[0] if output else 'its check says nothing'}"
        if check.node not in alive and check.check_id == "serfHealth":
            fix = Fix("by_hand", check.node, "bring it back, or take it out of the inventory")
            if check.node not in ours:
                fix = Fix("forget_machine", check.node, "forget it: the inventory does not name it")
            risk: Risk = "data" if check.node in ours else "disruptive"
            yield Finding(f"check:{check.node}:{check.check_id}", evidence, risk, fix)
        elif check.service_id:
            fix = Fix(
                "deregister_check", f"{check.node}:{check.service_id}",
                "restart its allocation, or remove the instance if no allocation runs it",
            )  # fmt: skip
            yield Finding(f"check:{check.node}:{check.check_id}", evidence, "disruptive", fix)
