"""Probe the whole cluster, without writing anything."""

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
    """Return all findings, sorted by id. An agent that does not answer is a finding, too."""
    listed = declared.machines
    days = declared.limits.certificate_days
    findings = list(
        machines.diagnose(listed, declared.limits, asked=declared.asked, now=time.time())
    )
    parts: list[tuple[str, Callable[[], Iterator[Finding]]]] = [
        ("consul", lambda: _peers_of_consul(consul, listed)),
        ("consul", lambda: servers.checks(consul, listed)),
        ("nomad", lambda: _peers_of_nomad(nomad, listed)),
        ("nomad", lambda: servers.nodes(nomad, listed)),
        ("nomad", lambda: jobs.diagnose(nomad, declared.jobs)),
        ("nomad", lambda: services.diagnose(consul, nomad)),
    ]
    if declared.acl:
        parts += [
            ("consul", lambda: servers.token("consul", consul.session, days=days)),
            ("nomad", lambda: servers.token("nomad", nomad.session, days=days)),
        ]
    for product, part in parts:
        findings += _findings(product, part)
    return sorted(
        {finding.id: finding for finding in _without_duplicates(findings)}.values(),
        key=lambda f: f.id,
    )


def _peers_of_consul(consul: Consul, listed: list[Machine]) -> Iterator[Finding]:
    return servers.peers("consul", consul.peers(), listed, servers.serving_consul(consul))


def _peers_of_nomad(nomad: Nomad, listed: list[Machine]) -> Iterator[Finding]:
    return servers.peers("nomad", nomad.peers(), listed, servers.serving_nomad(nomad))


def _without_duplicates(findings: list[Finding]) -> list[Finding]:
    """Remove findings of checks whose services are stale: they are reported once."""
    stale = {f.fix.target for f in findings if f.fix.action == "forget_service"}
    return [f for f in findings if f.fix.action != "deregister_check" or f.fix.target not in stale]


def _findings(product: str, part: Callable[[], Iterator[Finding]]) -> list[Finding]:
    try:
        return list(part())
    except ClusterError as error:
        fix = Fix("by_hand", product, "repair the machines first, then probe again")
        return [Finding(f"agent:{product}", str(error), "data", fix)]
