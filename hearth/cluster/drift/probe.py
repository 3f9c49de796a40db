"""One look at everything. It writes nothing anywhere."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hearth.cluster.consul import Consul
from hearth.cluster.drift import jobs, machines, servers, services
from hearth.cluster.drift.finding import Finding, Fix
from hearth.cluster.drift.machines import Limits, Machine
from hearth.cluster.errors import ClusterError
from hearth.cluster.nomad import Nomad


@dataclass(frozen=True)
class Declared:
    """The declared state. `asked`: when the reports of the machines were requested, epoch seconds.

    `acl`: whether access control is on. `jobs`: job -> its file.
    """

    machines: list[Machine]
    jobs: Mapping[str, Path] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    asked: float = 0.0
    acl: bool = True


def probe(declared: Declared, consul: Consul, nomad: Nomad) -> list[Finding]:
    """Every finding, sorted by id. An agent that does not answer is a finding, too."""
    there = declared.machines
    days = declared.limits.certificate_days
    found = list(machines.judge(there, declared.limits, asked=declared.asked, now=time.time()))
    parts: list[tuple[str, Callable[[], Iterator[Finding]]]] = [
        ("consul", lambda: _peers_of_consul(consul, there)),
        ("consul", lambda: servers.checks(consul, there)),
        ("nomad", lambda: _peers_of_nomad(nomad, there)),
        ("nomad", lambda: servers.nodes(nomad, there)),
        ("nomad", lambda: jobs.judge(nomad, declared.jobs)),
        ("nomad", lambda: services.judge(consul, nomad)),
    ]
    if declared.acl:
        parts += [
            ("consul", lambda: servers.token("consul", consul.session, days=days)),
            ("nomad", lambda: servers.token("nomad", nomad.session, days=days)),
        ]
    for product, part in parts:
        found += _watched(product, part)
    return sorted(
        {finding.id: finding for finding in _told_once(found)}.values(), key=lambda f: f.id
    )


def _peers_of_consul(consul: Consul, there: list[Machine]) -> Iterator[Finding]:
    return servers.peers("consul", consul.peers(), there, servers.serving_consul(consul))


def _peers_of_nomad(nomad: Nomad, there: list[Machine]) -> Iterator[Finding]:
    return servers.peers("nomad", nomad.peers(), there, servers.serving_nomad(nomad))


def _told_once(found: list[Finding]) -> list[Finding]:
    """Remove findings of checks whose services are stale: they are reported once."""
    stale = {f.fix.target for f in found if f.fix.action == "forget_service"}
    return [f for f in found if f.fix.action != "deregister_check" or f.fix.target not in stale]


def _watched(product: str, part: Callable[[], Iterator[Finding]]) -> list[Finding]:
    try:
        return list(part())
    except ClusterError as error:
        fix = Fix("by_hand", product, "repair the machines first, then probe again")
        return [Finding(f"agent:{product}", str(error), "data", fix)]
