"""Measure this machine: processor, memory, disk, temperature, power and graphics cards.

A value that cannot be measured is None. The kernel's files are described in its Documentation/ABI:
`powercap` (RAPL) for the energy of the processor, `power_supply` for a battery, `drm` and `hwmon`
for AMD cards. NVIDIA cards are measured by `nvidia-smi`.
"""

import csv
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import psutil
import structlog
from pydantic import BaseModel

log = structlog.get_logger()

SYSTEM: Final = Path("/sys")
NVIDIA: Final = (
    "nvidia-smi",
    "--query-gpu=name,memory.total,memory.used,utilization.gpu,temperature.gpu,power.draw",
    "--format=csv,noheader,nounits",
)

PROCESSOR_SENSORS: Final = ("coretemp", "k10temp", "zenpower", "cpu_thermal", "acpitz")
"""Names of temperature sensors of processors, the most exact first."""


class Card(BaseModel):
    """One graphics card. Memory is in bytes."""

    name: str
    memory_total: int | None = None
    memory_used: int | None = None
    percent: float | None = None
    celsius: float | None = None
    watts: float | None = None


class HostStats(BaseModel):
    """The measurements of a machine at the time `at`. Memory and disk are in bytes."""

    at: datetime
    cpu_percent: float | None = None
    memory_total: int | None = None
    memory_used: int | None = None
    disk_total: int | None = None
    disk_used: int | None = None
    uptime_seconds: float | None = None
    celsius: float | None = None
    watts: float | None = None
    watts_of: str = ""
    """The parts that the watts are of: `whole machine`, `processor`, `graphics cards`."""
    cards: list[Card] = []


class HostMeter:
    """Measures this machine and the file system of `folder`. Safe to call from several threads.

    Load and power are means since the previous measurement.
    """

    def __init__(
        self,
        folder: Path,
        *,
        system: Path = SYSTEM,
        nvidia: Sequence[str] = NVIDIA,
        fresh_seconds: float = 1.0,
    ) -> None:
        """Measurements are not repeated within `fresh_seconds`."""
        self._folder, self._system, self._nvidia = folder, system, nvidia
        self._fresh = fresh_seconds
        self._lock = threading.Lock()
        self._last: tuple[float, HostStats] | None = None
        self._energy: tuple[float, dict[Path, int]] | None = None

    def read(self) -> HostStats:
        """Measure now. Blocks, the first time for a tenth of a second."""
        with self._lock:
            if self._last is None or time.monotonic() - self._last[0] > self._fresh:
                self._last = (time.monotonic(), self._measure(first=self._last is None))
            return self._last[1]

    def _measure(self, *, first: bool) -> HostStats:
        memory, disk = psutil.virtual_memory(), psutil.disk_usage(str(self._folder))
        cards = [*nvidia_cards(self._nvidia), *amd_cards(self._system)]
        watts, watts_of = self._power(cards)
        return HostStats(
            at=datetime.now(UTC),
            cpu_percent=psutil.cpu_percent(0.1 if first else None),
            memory_total=memory.total,
            memory_used=memory.total - memory.available,
            disk_total=disk.total,
            disk_used=disk.used,
            uptime_seconds=time.time() - psutil.boot_time(),
            celsius=processor_celsius(),
            watts=watts,
            watts_of=watts_of,
            cards=cards,
        )

    def _power(self, cards: Sequence[Card]) -> tuple[float | None, str]:
        """Return the power in watts and its source: the battery, else processor and graphics
        cards."""
        if (battery := battery_watts(self._system)) is not None:
            return battery, "whole machine"
        parts = {
            "processor": self._processor_watts(),
            "graphics cards": _sum(card.watts for card in cards),
        }
        known = {name: watts for name, watts in parts.items() if watts is not None}
        return _sum(known.values()), " and ".join(known)

    def _processor_watts(self) -> float | None:
        """Return the mean since the previous call; None at the first call, or without
        permission."""
        now, counters = time.monotonic(), energy_counters(self._system)
        before, self._energy = self._energy, (now, counters)
        if before is None or not counters or counters.keys() != before[1].keys():
            return None
        used = 0
        for zone, microjoules in counters.items():
            used += microjoules - before[1][zone]
            if microjoules < before[1][zone]:
                used += _number(zone.with_name("max_energy_range_uj")) or 0
        return used / 1e6 / (now - before[0])


def processor_celsius() -> float | None:
    """Return the temperature of the processor's hottest sensor, or None."""
    if not hasattr(psutil, "sensors_temperatures"):
        return None
    by_name = psutil.sensors_temperatures()
    sensors = next((by_name[name] for name in PROCESSOR_SENSORS if by_name.get(name)), None)
    return max(sensor.current for sensor in sensors) if sensors else None


def energy_counters(system: Path) -> dict[Path, int]:
    """Return the energy counter of each processor package in microjoules, if readable."""
    counters = {}
    for zone in sorted((system / "class/powercap").glob("intel-rapl:?/energy_uj")):
        if (microjoules := _number(zone)) is not None:
            counters[zone] = microjoules
    return counters


def battery_watts(system: Path) -> float | None:
    """Return the power of a discharging battery in watts, or None."""
    for battery in sorted((system / "class/power_supply").glob("BAT*")):
        microwatts = _number(battery / "power_now")
        if microwatts is not None and _text(battery / "status") == "Discharging":
            return microwatts / 1e6
    return None


def nvidia_cards(command: Sequence[str] = NVIDIA) -> list[Card]:
    """Return the NVIDIA cards; none without their driver. Failures of the driver are logged."""
    try:
        ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=5)
    except FileNotFoundError:
        return []
    except (OSError, subprocess.SubprocessError) as error:
        log.warning("graphics_cards_not_measured", reason=str(error))
        return []
    rows = csv.reader(ended.stdout.splitlines(), skipinitialspace=True)
    return [_nvidia_card(row) for row in rows if len(row) == 6]


def _nvidia_card(row: Sequence[str]) -> Card:
    total, used, percent, celsius, watts = map(_float, row[1:])
    return Card(
        name=row[0],
        memory_total=None if total is None else int(total) << 20,
        memory_used=None if used is None else int(used) << 20,
        percent=percent,
        celsius=celsius,
        watts=watts,
    )


def amd_cards(system: Path) -> Iterator[Card]:
    """Yield the AMD cards, with the values of the kernel's amdgpu driver."""
    for device in sorted((system / "class/drm").glob("card?/device")):
        total = _number(device / "mem_info_vram_total")
        if total is None:
            continue
        sensors = next(iter(sorted((device / "hwmon").glob("hwmon*"))), device)
        celsius, watts = _number(sensors / "temp1_input"), _number(sensors / "power1_average")
        yield Card(
            name=_text(device / "product_name") or "AMD graphics card",
            memory_total=total,
            memory_used=_number(device / "mem_info_vram_used"),
            percent=_number(device / "gpu_busy_percent"),
            celsius=None if celsius is None else celsius / 1e3,
            watts=None if watts is None else watts / 1e6,
        )


def _sum(values: Iterable[float | None]) -> float | None:
    known = [one for one in values if one is not None]
    return sum(known) if known else None


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text.lstrip("-").isdecimal() else None


def _text(path: Path) -> str:
    """Return the content of a file, or an empty string if it cannot be read."""
    with suppress(OSError):
        return path.read_text(encoding="utf-8").strip()
    return ""


def _float(text: str) -> float | None:
    """Parse a number of `nvidia-smi`, which prints `[N/A]` for missing values."""
    try:
        return float(text)
    except ValueError:
        return None
