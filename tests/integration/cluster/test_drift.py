"""Drift that is planted on real agents: found, repaired, and gone in the second probe."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from hearth.cluster.consul import Consul
from hearth.cluster.drift.finding import Finding, chosen
from hearth.cluster.drift.machines import Disk, Machine, Report, Unit
from hearth.cluster.drift.probe import Declared, probe
from hearth.cluster.drift.repair import repair
from hearth.cluster.endpoint import Endpoint
from hearth.cluster.jobs.deploy import Jobs, Source
from hearth.cluster.nomad import Nomad
from tests.integration.cluster.agents import Agent, wait_for
from tests.integration.cluster.conftest import CONSUL_TOKEN, NOMAD_TOKEN
from tests.integration.cluster.playing import play
from tests.integration.cluster.test_jobs import SERVICE

EXTENDED_INPUTS = [
    "ansible/plugins/modules/cluster_drift.py",
    "hearth/cluster/*.py",
    "tests/integration/cluster/*.py",
]
pytestmark = [pytest.mark.nomad, pytest.mark.extended]
HEALTHY = Report(
    arch="x86_64",
    units={"consul.service": Unit(active="active", enabled="enabled")},
    binaries={"/usr/local/bin/nomad": "ab" * 32},
    certificates={"/etc/x.pem": 4e9},
    disks={"/": Disk(free=50, total=100)},
    settings={"/etc/consul.d/consul.json": False},
)


@dataclass
class Cluster:
    """One machine, one job, both agents."""

    consul: Consul
    nomad: Nomad
    declared: Declared

    def findings(self) -> dict[str, Finding]:
        return {f.id: f for f in probe(self.declared, self.consul, self.nomad)}

    def evidence(self, finding: str) -> str:
        """What a finding says; nothing while there is no such finding."""
        found = self.findings().get(finding)
        return found.evidence if found else ""

    def heal(self, *named: str) -> list[str]:
        wished = chosen(list(self.findings().values()), list(named))
        return [f.id for f in wished if repair(f, self.consul, self.nomad, self.declared.jobs)]


@pytest.fixture(scope="module", autouse=True)
def nothing_left(nomad_server: Agent) -> Iterator[None]:
    """Its one job runs for all tests of this file, and for no other."""
    with Nomad(nomad_server.known_as(NOMAD_TOKEN)) as nomad:
        for row in nomad.jobs():
            nomad.stop(row.id, purge=True)
        yield
        nomad.stop("web", purge=True)


@pytest.fixture
def cluster(consul: Consul, nomad: Nomad, tmp_path: Path) -> Cluster:
    """A cluster on which a probe finds nothing; a test that changed the job gets it as it was."""
    file = tmp_path / "web.nomad.hcl"
    file.write_text(SERVICE.replace("NAME", "web"))
    jobs = Jobs(nomad)
    plan = jobs.plan(Source(str(file), file.read_text(), {"words": "hi"}))
    if plan.changed:
        jobs.register(plan)
        jobs.wait(plan.id, timeout=60)
    now = time.time()
    machine = Machine("solo", "127.0.0.1", server=True, report=HEALTHY.model_copy(
        update={"clock": now}))  # fmt: skip
    return Cluster(consul, nomad, Declared([machine], {"web": file}, asked=now))


def _planted(cluster: Cluster, body: dict[str, Any], finding: str) -> Finding:
    """What is found once this stands in the catalogue.

    Again and again: once in a minute the agent takes out what it does not know.
    """
    for _ in range(20):
        cluster.consul.session.call("PUT", "catalog/register", body)
        if found := cluster.findings().get(finding):
            return found
    raise AssertionError(f"{finding} is not found: {cluster.findings()}")


def _with_report(cluster: Cluster, **changed: object) -> None:
    machine = cluster.declared.machines[0]
    assert machine.report is not None
    report = machine.report.model_copy(update=changed)
    cluster.declared = replace(cluster.declared, machines=[replace(machine, report=report)])


def test_converged_cluster_has_no_findings(cluster: Cluster) -> None:
    """A probe that cries wolf is switched off by its owner."""
    assert cluster.findings() == {}


def test_job_that_was_changed_by_hand_is_put_back_when_named(cluster: Cluster) -> None:
    """The file is right; what runs restarts only because somebody said so."""
    jobs = Jobs(cluster.nomad)
    other = SERVICE.replace("NAME", "web").replace("600", "700")
    by_hand = jobs.plan(Source("by hand", other, {"words": "hi"}))
    jobs.register(by_hand)
    jobs.wait(by_hand.id, timeout=60)

    finding = cluster.findings()["job:web"]
    unnamed = cluster.heal()
    named = cluster.heal("job:web")
    jobs.wait("web", timeout=60)

    assert finding.risk == "disruptive"
    assert "700" in finding.evidence
    assert (unnamed, named) == ([], ["job:web"])
    assert cluster.findings() == {}


def test_stopped_job_is_safe_to_start_again(cluster: Cluster, nomad_server: Agent) -> None:
    """Nothing runs, so nothing can be disturbed; its variables are those of the last playbook."""
    cluster.nomad.stop("web")
    wait_for(lambda: not any(a.runs for a in cluster.nomad.allocations("web")), nomad_server)

    assert cluster.findings()["job:web"].risk == "safe"
    assert cluster.heal() == ["job:web"]
    wait_for(lambda: not cluster.findings(), nomad_server)


def test_dead_job_is_revived_without_a_purge(
    cluster: Cluster, nomad_server: Agent, tmp_path: Path
) -> None:
    """The job keeps its versions and its history; what failed is placed again."""
    there = tmp_path / "there"
    hcl = SERVICE.replace("NAME", "web").replace("sleep", f"test -e {there} || exit 1; sleep")
    cluster.declared.jobs["web"].write_text(hcl)
    jobs = Jobs(cluster.nomad)
    jobs.register(jobs.plan(Source("x", hcl)))
    wait_for(lambda: "was not deployed" in cluster.evidence("allocation:web"), nomad_server)
    there.touch()
    failed = cluster.nomad.job("web")["Version"]

    assert cluster.heal() == ["allocation:web"]
    wait_for(lambda: not cluster.findings(), nomad_server)
    assert cluster.nomad.job("web")["Version"] > failed >= 1


def test_unknown_job_and_missing_job_are_told_apart(cluster: Cluster, tmp_path: Path) -> None:
    """What nobody declared is never stopped; what is missing is registered by its role."""
    gone = tmp_path / "moe-gateway.nomad.hcl"
    gone.write_text(SERVICE.replace("NAME", "moe-gateway"))
    cluster.declared = replace(cluster.declared, jobs={"moe-gateway": gone})

    findings = cluster.findings()

    assert (findings["job:web"].risk, findings["job:web"].fix.action) == ("data", "by_hand")
    missing = findings["job:moe-gateway"]
    assert (missing.risk, missing.fix.action, missing.fix.target) == (
        "safe", "run_role", "moe_gateway",
    )  # fmt: skip


def test_instance_without_allocation_is_forgotten_when_named(cluster: Cluster) -> None:
    """A name that leads nowhere slows every caller down."""
    body = {"Node": "solo", "Address": "127.0.0.1", "SkipNodeUpdate": True,
            "Service": {"ID": "ghost-1", "Service": "ghost", "Port": 1},
            "Check": {"CheckID": "ghost-1", "Name": "life", "Status": "critical",
                      "ServiceID": "ghost-1", "Output": "connection refused"}}  # fmt: skip
    finding = _planted(cluster, body, "check:solo:ghost-1")

    assert finding.evidence == "ghost on solo is critical: connection refused"
    assert cluster.heal() == []
    assert cluster.heal(finding.id) == [finding.id]
    assert cluster.findings() == {}


@pytest.mark.parametrize(
    ("service", "id"),
    [
        ("web", "_nomad-task-0a1b2c3d-1111-4222-8333-0123456789ab-group-web-web-http"),
        ("llama-expert-small", "llama-expert-small-127.0.0.9-20001"),
        ("nomad", "_nomad-server-27cmq3wobprrcxu54zkdd6feiekuvysa"),
    ],
)
def test_entry_of_what_no_longer_runs_is_forgotten(cluster: Cluster, service: str, id: str) -> None:
    """Its check may be good and its port somebody else's by now: callers would be led there."""
    entry = {"ID": id, "Service": service, "Address": "127.0.0.9", "Port": 20001}
    body = {"Node": "solo", "Address": "127.0.0.1", "SkipNodeUpdate": True, "Service": entry,
            "Check": {"CheckID": id, "Name": "life", "Status": "critical",
                      "ServiceID": id}}  # fmt: skip
    finding = _planted(cluster, body, f"stale:solo:{id}")

    assert finding.risk == "safe"
    assert cluster.findings().keys() <= {finding.id}
    assert cluster.heal() == [f"stale:solo:{id}"]
    assert cluster.findings() == {}


def test_entry_of_what_runs_is_left(cluster: Cluster) -> None:
    """Who forgets too much takes a service from its users."""
    (runs,) = [one for one in cluster.nomad.allocations("web") if one.runs]
    id = f"_nomad-task-{runs.id}-group-web-web-http"
    entry = {"ID": id, "Service": "web", "Address": "127.0.0.1", "Port": 20001}
    body = {"Node": "solo", "Address": "127.0.0.1", "SkipNodeUpdate": True, "Service": entry}
    cluster.consul.session.call("PUT", "catalog/register", body)

    assert cluster.findings() == {}
    cluster.consul.session.call("PUT", "catalog/deregister", {"Node": "solo", "ServiceID": id})


def test_machine_that_takes_no_jobs_is_found_and_let_in(cluster: Cluster) -> None:
    """A drain that nobody ended leaves the cluster smaller than its owner thinks."""
    (node,) = cluster.nomad.nodes()
    body = {"NodeID": node.id, "Eligibility": "ineligible"}
    cluster.nomad.session.call("POST", f"node/{node.id}/eligibility", body)

    assert cluster.findings()["node:solo"].risk == "disruptive"
    assert cluster.heal("node:solo") == ["node:solo"]
    assert cluster.findings() == {}


def test_servers_that_the_inventory_does_not_know_are_named(cluster: Cluster) -> None:
    """After a change of addresses a dead peer takes part in every vote."""
    machine = replace(cluster.declared.machines[0], address="127.0.0.9")
    cluster.declared = replace(cluster.declared, machines=[machine])

    findings = cluster.findings()

    stale = [f for f in findings.values() if f.fix.action == "remove_peer"]
    missing = [f.id for f in findings.values() if f.id.endswith(":solo")]
    assert sorted(f.id.split(":")[1] for f in stale) == ["consul", "nomad"]
    assert missing == ["peer:consul:solo", "peer:nomad:solo"]


def test_token_that_does_not_work_is_found(cluster: Cluster) -> None:
    """A play that starts with a dead token fails half-way; the probe says so first."""
    stranger = "f0000000-1111-4222-8333-444444444444"
    with Consul(replace(cluster.consul.endpoint, token=stranger)) as consul:
        found = {f.id for f in probe(cluster.declared, consul, cluster.nomad)}

    assert "token:consul" in found


def test_agent_that_does_not_answer_is_a_finding(cluster: Cluster) -> None:
    """A probe must not stop at the first broken part: the rest is what one wants to know."""
    with Nomad(Endpoint("http://127.0.0.1:9")) as nomad:
        found = {f.id: f for f in probe(cluster.declared, cluster.consul, nomad)}

    assert "Nobody answers at http://127.0.0.1:9" in found["agent:nomad"].evidence


def test_module_finds_repairs_and_keeps_a_journal(
    cluster: Cluster, consul_server: Agent, nomad_server: Agent, tmp_path: Path
) -> None:
    """The playbook explains first, repairs what is safe, and leaves a record."""
    cluster.nomad.stop("web")
    wait_for(lambda: not any(a.runs for a in cluster.nomad.allocations("web")), nomad_server)
    report = HEALTHY.model_copy(update={"clock": time.time(), "units": {
        "nomad.service": Unit(active="failed", enabled="enabled")}})  # fmt: skip
    ask = {
        "consul": _agent(consul_server, CONSUL_TOKEN),
        "nomad": _agent(nomad_server, NOMAD_TOKEN),
        "machines": {"solo": {"address": "127.0.0.1", "server": True,
                              "report": report.model_dump()}},
        "jobs": {job: str(file) for job, file in cluster.declared.jobs.items()},
        "asked": time.time(), "clock_seconds": 600, "journal": str(tmp_path / "journal.jsonl"),
    }  # fmt: skip
    healing = {"cluster_drift": ask | {"repair": True}}

    looked, _ = play(tmp_path, [healing], "--check")
    seen, healed, output = play(tmp_path, [{"cluster_drift": ask}, healing])

    ids = ["job:web", "unit:solo:nomad.service"]
    assert [f["id"] for f in looked["findings"]] == ids
    assert (looked["changed"], looked["repaired"]) == (True, [])
    assert seen["explained"][1].startswith("[safe] unit:solo:nomad.service: nomad.service on solo")
    assert healed["repaired"] == ["job:web"]
    assert [f["fix"]["action"] for f in healed["for_machines"]] == ["start_unit"]
    journal = (tmp_path / "journal.jsonl").read_text()
    assert journal.count("\n") == 2
    assert NOMAD_TOKEN not in journal + output


def _agent(agent: Agent, token: str) -> dict[str, str]:
    authority = str(agent.endpoint.ca_file)
    return {"url": agent.endpoint.url, "token": token, "ca_file": authority}
