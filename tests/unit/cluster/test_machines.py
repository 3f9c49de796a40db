"""What counts as drift of a machine."""

import pytest

from hearth.cluster.drift.finding import Finding, Fix, chosen
from hearth.cluster.drift.machines import Disk, Limits, Machine, Report, Unit, diagnose

NOW = 1_800_000_000.0
ROLES = {"/etc/tls.pem": "consul", "/etc/consul.json": "consul", "/bin/nomad": "nomad"}
GOOD = Report(
    arch="x86_64",
    units={"nomad.service": Unit(active="active", enabled="enabled")},
    binaries={"/bin/nomad": "a" * 64},
    certificates={"/etc/tls.pem": NOW + 200 * 86400},
    disks={"/": Disk(free=30, total=100)},
    settings={"/etc/consul.json": False},
    clock=NOW,
)


def _findings(*machines: Machine, limits: Limits | None = None) -> list[Finding]:
    limits = limits or Limits(roles=ROLES)
    return list(diagnose(list(machines), limits, asked=NOW - 1, now=NOW + 1))


def test_good_machine_has_no_findings() -> None:
    """A probe that cries wolf is switched off by its owner."""
    assert _findings(Machine("a", "10.0.0.1", server=True, report=GOOD)) == []


@pytest.mark.parametrize(
    ("changed", "found", "risk", "action"),
    [
        ({"units": {"nomad.service": Unit(active="failed", enabled="enabled")}},
         "unit:a:nomad.service", "safe", "start_unit"),
        ({"units": {"nomad.service": Unit(active="active", enabled="disabled")}},
         "unit:a:nomad.service", "safe", "start_unit"),
        ({"binaries": {"/bin/nomad": "b" * 64}}, "binary:a:/bin/nomad", "disruptive",
         "replace_binary"),
        ({"binaries": {"/bin/nomad": ""}}, "binary:a:/bin/nomad", "disruptive", "replace_binary"),
        ({"certificates": {"/etc/tls.pem": NOW + 86400}}, "certificate:a:/etc/tls.pem",
         "disruptive", "run_role"),
        ({"certificates": {"/etc/tls.pem": 0.0}}, "certificate:a:/etc/tls.pem", "disruptive",
         "run_role"),
        ({"disks": {"/": Disk(free=9, total=100)}}, "disk:a:/", "safe", "collect_garbage"),
        ({"settings": {"/etc/consul.json": True}}, "config:a:/etc/consul.json", "disruptive",
         "run_role"),
        ({"clock": NOW - 60}, "clock:a", "safe", "sync_clock"),
        ({"clock": NOW + 60}, "clock:a", "safe", "sync_clock"),
    ],
)  # fmt: skip
def test_each_kind_of_drift_is_found_with_its_fix(
    changed: dict[str, object], found: str, risk: str, action: str
) -> None:
    """Id, risk and fix are what the playbook acts on."""
    machine = Machine("a", "10.0.0.1", report=GOOD.model_copy(update=changed))
    limits = Limits(roles=ROLES, binaries={("x86_64", "/bin/nomad"): "a" * 64})

    (finding,) = _findings(machine, limits=limits)

    assert (finding.id, finding.risk, finding.fix.action) == (found, risk, action)
    assert finding.fix.machine == "a"


def test_odd_program_is_found_among_others_of_its_kind() -> None:
    """Where the controller has only an archive, the other machines tell what is right."""
    odd = GOOD.model_copy(update={"binaries": {"/bin/nomad": "b" * 64}})
    other_arch = odd.model_copy(update={"arch": "aarch64"})
    machines = [Machine(n, n, report=GOOD) for n in ("a", "b")]

    findings = _findings(*machines, Machine("c", "c", report=odd),
                         Machine("d", "d", report=other_arch))  # fmt: skip

    assert [f.id for f in findings] == ["binary:c:/bin/nomad"]


def test_machine_may_sleep_when_it_is_said_to() -> None:
    """A sleeping expert is no alarm; a machine that is always on is one; a sleeping server, too."""
    asleep = Machine("a", "10.0.0.1", sleeps=True)
    lost = Machine("b", "10.0.0.2")
    server = Machine("c", "10.0.0.3", server=True, sleeps=True, report=GOOD)

    assert [f.id for f in _findings(asleep, lost, server)] == ["machine:b", "sleep:c"]


def test_only_safe_and_named_findings_are_repaired() -> None:
    """Nothing restarts, and nothing is lost, that nobody asked for."""
    safe, disruptive, data = (
        Finding(risk, "", risk, Fix("revive_job", "", ""))
        for risk in ("safe", "disruptive", "data")
    )
    by_hand = Finding("hand", "", "safe", Fix("by_hand", "", ""))
    every = [safe, disruptive, data, by_hand]

    assert chosen(every, []) == [safe]
    assert chosen(every, ["data"]) == [safe, data]
    assert chosen(every, ["all"]) == [safe, disruptive, data]
