"""The repairs that go through the agents. Each raises `ClusterError` when it cannot be done."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from hearth.cluster.consul import Consul
from hearth.cluster.drift import jobs
from hearth.cluster.drift.finding import Action, Finding
from hearth.cluster.jobs.deploy import Jobs
from hearth.cluster.nomad import Nomad

Repair = Callable[[Consul, Nomad, str, Mapping[str, Path]], None]


def repair(finding: Finding, consul: Consul, nomad: Nomad, files: Mapping[str, Path]) -> bool:
    """Repair a finding; return False if heal_cluster.yaml or a person has to do it."""
    step = REPAIRS.get(finding.fix.action)
    if step is None:
        return False
    step(consul, nomad, finding.fix.target, files)
    return True


def _remove_peer(consul: Consul, nomad: Nomad, target: str, _f: Mapping[str, Path]) -> None:
    """Remove a peer, unless Consul's leader has already removed it with its server."""
    product, _, peer = target.partition(":")
    client = consul if product == "consul" else nomad
    if peer in {server.id for server in client.peers()}:
        client.session.call("DELETE", "operator/raft/peer", params={"id": peer})


def _forget_machine(consul: Consul, nomad: Nomad, target: str, _: Mapping[str, Path]) -> None:
    """Remove a machine from Consul, from the servers of Nomad and from its scheduler."""
    consul.session.call("PUT", f"agent/force-leave/{target}", params={"prune": ""})
    for member in nomad.session.call("GET", "agent/members")["Members"]:
        if member["Name"].rpartition(".")[0] == target and member["Status"] != "alive":
            params = {"node": member["Name"], "prune": "true"}
            nomad.session.call("PUT", "agent/force-leave", params=params)
    for node in nomad.nodes():
        if node.name == target and node.status == "down":
            nomad.session.call("POST", f"node/{node.id}/purge")


def _make_eligible(_c: Consul, nomad: Nomad, target: str, _: Mapping[str, Path]) -> None:
    body = {"NodeID": target, "Eligibility": "eligible"}
    nomad.session.call("POST", f"node/{target}/eligibility", body)


def _deregister_check(consul: Consul, nomad: Nomad, target: str, _f: Mapping[str, Path]) -> None:
    """Restart the allocation that a service belongs to; if it no longer runs, remove the service
    from the catalogue."""
    service = target.partition(":")[2]
    allocation = _allocation_of(nomad, service)
    if allocation:
        nomad.session.call("POST", f"client/allocation/{allocation}/restart", {"AllTasks": True})
    else:
        _forget_service(consul, nomad, target, _f)


def _forget_service(consul: Consul, _n: Nomad, target: str, _: Mapping[str, Path]) -> None:
    node, service = target.split(":", maxsplit=1)
    consul.forget(node, service)


def _allocation_of(nomad: Nomad, service: str) -> str:
    """Return the running allocation of a service, empty if there is none.

    Nomad's ids of services are `_nomad-task-<allocation>-…`.
    """
    for row in nomad.session.call("GET", "allocations"):
        if row["ID"] in service and row["ClientStatus"] == "running":
            return str(row["ID"])
    return ""


def _revive_job(_c: Consul, nomad: Nomad, target: str, _: Mapping[str, Path]) -> None:
    Jobs(nomad).reschedule(target)


def _register_job(_c: Consul, nomad: Nomad, target: str, files: Mapping[str, Path]) -> None:
    jobs.reregister(nomad, target, files[target])


def _collect_garbage(_c: Consul, nomad: Nomad, _t: str, _: Mapping[str, Path]) -> None:
    nomad.session.call("PUT", "system/gc")


REPAIRS: Final[Mapping[Action, Repair]] = {
    "remove_peer": _remove_peer,
    "forget_machine": _forget_machine,
    "make_eligible": _make_eligible,
    "deregister_check": _deregister_check,
    "forget_service": _forget_service,
    "revive_job": _revive_job,
    "register_job": _register_job,
    "collect_garbage": _collect_garbage,
}
