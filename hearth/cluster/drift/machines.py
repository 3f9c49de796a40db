"""Probe the reports of the machines: units, programs, settings, certificates, disk, clock."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from hearth.cluster.drift.finding import Finding, Fix

DAY: Final = 86400.0


class Unit(BaseModel):
    """A unit of systemd: `active` and `enabled` are systemd's values."""

    active: str
    enabled: str


class Disk(BaseModel):
    """Bytes of one file system."""

    free: int
    total: int


class Report(BaseModel):
    """The result of the module `machine_report`.

    `binaries`: path -> sha256, empty when the file is not there. `certificates`: path -> end in
    seconds since 1970, 0 when it cannot be read. `settings`: path -> whether it differs from what
    the role renders, or was written after what reads it was started. `clock`: seconds since 1970.
    """

    model_config = ConfigDict(frozen=True)

    arch: str = ""
    units: dict[str, Unit] = Field(default_factory=dict)
    binaries: dict[str, str] = Field(default_factory=dict)
    certificates: dict[str, float] = Field(default_factory=dict)
    disks: dict[str, Disk] = Field(default_factory=dict)
    settings: dict[str, bool] = Field(default_factory=dict)
    clock: float = 0.0


@dataclass(frozen=True)
class Machine:
    """One machine of the inventory; `report` is None when it did not answer."""

    name: str
    address: str
    server: bool = False
    sleeps: bool = False
    report: Report | None = None


@dataclass(frozen=True)
class Limits:
    """The limits beyond which a value counts as drift."""

    certificate_days: float = 30.0
    disk_share: float = 0.10
    clock_seconds: float = 5.0
    binaries: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """(arch, path) of a program -> the sha256 it must have, where the controller knows."""
    roles: Mapping[str, str] = field(default_factory=dict)
    """Path of a program, setting or certificate -> the role that keeps it."""


def diagnose(
    machines: list[Machine], limits: Limits, *, asked: float, now: float
) -> Iterator[Finding]:
    """Find differences on all machines. `asked`, `now`: times of the request and of this call."""
    expected = _usual_binaries(machines)
    for machine in machines:
        yield from _sleep(machine)
        if machine.report is None:
            yield from _silent(machine)
            continue
        yield from _units(machine, machine.report)
        yield from _binaries(machine, machine.report, expected, limits)
        yield from _settings(machine, machine.report, limits)
        yield from _certificates(machine, machine.report, limits, now)
        yield from _disks(machine, machine.report, limits)
        yield from _clock(machine, machine.report, limits, asked, now)


def _silent(machine: Machine) -> Iterator[Finding]:
    if not machine.sleeps:
        yield Finding(
            f"machine:{machine.name}",
            f"{machine.name} ({machine.address}) does not answer and is said to be always on",
            "disruptive",
            Fix("by_hand", machine.name, f"look at {machine.name}: power, cable, sleep"),
        )


def _sleep(machine: Machine) -> Iterator[Finding]:
    """Find servers that may sleep: a quorum needs them."""
    if machine.server and machine.sleeps:
        yield Finding(
            f"sleep:{machine.name}",
            f"{machine.name} runs a server and is said to sleep",
            "disruptive",
            Fix("by_hand", machine.name, "name another machine in the group servers, or set "
                "power_class: always_on"),
        )  # fmt: skip


def _units(machine: Machine, report: Report) -> Iterator[Finding]:
    for name, unit in report.units.items():
        if unit.active != "active" or unit.enabled not in {"enabled", "static"}:
            yield Finding(
                f"unit:{machine.name}:{name}",
                f"{name} on {machine.name} is {unit.active} and {unit.enabled or 'unknown'}",
                "safe",
                Fix("start_unit", name, f"start {name} and enable it", machine.name),
            )


def _binaries(
    machine: Machine, report: Report, expected: Mapping[tuple[str, str], str], limits: Limits
) -> Iterator[Finding]:
    for path, sha256 in report.binaries.items():
        wanted = (
            limits.binaries.get((report.arch, path)) or expected.get((report.arch, path)) or sha256
        )
        if sha256 != wanted or not sha256:
            role = limits.roles.get(path, "")
            is_there = f"has sha256 {sha256[:12]}" if sha256 else "is not there"
            yield Finding(
                f"binary:{machine.name}:{path}",
                f"{path} on {machine.name} {is_there}, not {wanted[:12] or 'what was installed'}",
                "disruptive",
                Fix("replace_binary", path, f"install it again (role {role})", machine.name, role),
            )  # fmt: skip


def _usual_binaries(machines: list[Machine]) -> dict[tuple[str, str], str]:
    """Return (arch, path) -> the sha256 on most machines of that architecture."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for machine in machines:
        for path, sha256 in (machine.report.binaries if machine.report else {}).items():
            arch = machine.report.arch if machine.report else ""
            counts.setdefault((arch, path), Counter()).update([sha256] if sha256 else [])
    return {key: count.most_common(1)[0][0] for key, count in counts.items() if count}


def _settings(machine: Machine, report: Report, limits: Limits) -> Iterator[Finding]:
    for path, differs in report.settings.items():
        if differs:
            role = limits.roles.get(path, "")
            yield Finding(
                f"config:{machine.name}:{path}",
                f"{path} on {machine.name} differs from what the inventory says, or from what runs",
                "disruptive",
                Fix("run_role", role, f"write it and restart what reads it (role {role})",
                    machine.name, role),
            )  # fmt: skip


def _certificates(
    machine: Machine, report: Report, limits: Limits, now: float
) -> Iterator[Finding]:
    for path, end in report.certificates.items():
        left = (end - now) / DAY
        if left <= limits.certificate_days:
            role = limits.roles.get(path, "")
            when = (
                f"ends on {datetime.fromtimestamp(end, UTC):%Y-%m-%d}" if end else "is unreadable"
            )
            yield Finding(
                f"certificate:{machine.name}:{path}",
                f"{path} on {machine.name} {when}",
                "disruptive",
                Fix("run_role", role, f"create it again (role {role})", machine.name, role),
            )


def _disks(machine: Machine, report: Report, limits: Limits) -> Iterator[Finding]:
    for path, disk in report.disks.items():
        if disk.free < disk.total * limits.disk_share:
            yield Finding(
                f"disk:{machine.name}:{path}",
                f"{path} on {machine.name} has {disk.free / 1e9:.1f} GB of "
                f"{disk.total / 1e9:.1f} GB left",
                "safe",
                Fix("collect_garbage", path, "let Nomad forget what has stopped; if that is not "
                    "enough, remove models or images by hand", machine.name),
            )  # fmt: skip


def _clock(
    machine: Machine, report: Report, limits: Limits, asked: float, now: float
) -> Iterator[Finding]:
    off = max(asked - report.clock, report.clock - now)
    if off > limits.clock_seconds:
        yield Finding(
            f"clock:{machine.name}",
            f"the clock of {machine.name} is off by {off:.0f} s",
            "safe",
            Fix("sync_clock", machine.name, "set the clock from the time servers", machine.name),
        )
