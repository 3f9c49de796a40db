"""What is measured of this machine, from files and programs as kernels and drivers have them."""

import sys
import time
from pathlib import Path

import psutil

from hearth.service.host import HostMeter, amd_cards, battery_watts, nvidia_cards

NO_CARDS = ("/nonexistent/nvidia-smi",)
CARDS = """\
NVIDIA GeForce RTX 3090, 24576, 1024, 37, 61, 152.33
Tesla K80, 11441, 11, [N/A], 40, [Not Supported]
"""


def write(root: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{content}\n", encoding="utf-8")
    return root


def meter(tmp_path: Path) -> HostMeter:
    return HostMeter(tmp_path, system=tmp_path, nvidia=NO_CARDS)


def test_processor_memory_disk_and_uptime_are_those_of_this_machine(tmp_path: Path) -> None:
    """The numbers that every system has."""
    stats = meter(tmp_path).read()

    assert stats.memory_total == psutil.virtual_memory().total
    assert stats.memory_used is not None
    assert 0 < stats.memory_used < stats.memory_total
    assert stats.disk_total == psutil.disk_usage(str(tmp_path)).total
    assert stats.cpu_percent is not None
    assert 0 <= stats.cpu_percent <= 100
    assert stats.uptime_seconds is not None
    assert stats.uptime_seconds > 0


def test_what_cannot_be_measured_is_none(tmp_path: Path) -> None:
    """A zero would be a lie: a machine without a meter does not run on no power."""
    stats = meter(tmp_path).read()

    assert (stats.watts, stats.watts_of, stats.cards) == (None, "", [])


def test_power_of_the_processor_is_the_energy_between_two_reads(tmp_path: Path) -> None:
    """The counter of RAPL is in microjoules and begins again at its end."""
    zone = "class/powercap/intel-rapl:0"
    write(tmp_path, {f"{zone}/energy_uj": "990", f"{zone}/max_energy_range_uj": "1000"})
    write(tmp_path, {"class/powercap/intel-rapl:0:0/energy_uj": "5"})  # a part of the package
    measuring = HostMeter(tmp_path, system=tmp_path, nvidia=NO_CARDS, fresh_seconds=0)
    assert measuring.read().watts is None, "one read says nothing about power"
    begun = time.monotonic()
    write(tmp_path, {f"{zone}/energy_uj": "10"})

    stats = measuring.read()

    assert stats.watts_of == "processor"
    assert stats.watts is not None
    assert 20e-6 / (time.monotonic() - begun + 1) < stats.watts < 1


def test_battery_tells_the_power_of_the_whole_machine_while_it_is_discharged(
    tmp_path: Path,
) -> None:
    """At the mains it is charged, which says nothing."""
    battery = "class/power_supply/BAT0"
    write(tmp_path, {f"{battery}/power_now": "8500000", f"{battery}/status": "Discharging"})
    assert battery_watts(tmp_path) == 8.5
    assert meter(tmp_path).read().watts_of == "whole machine"

    write(tmp_path, {f"{battery}/status": "Charging"})
    assert battery_watts(tmp_path) is None


def test_cards_of_nvidia_are_read_and_what_they_do_not_tell_is_none(tmp_path: Path) -> None:
    """The program writes MiB, and words where a card has no sensor."""
    command = (sys.executable, "-c", f"print({CARDS!r}, end='')")

    new, old = nvidia_cards(command)

    assert (new.name, new.memory_total, new.memory_used) == (
        "NVIDIA GeForce RTX 3090", 24576 << 20, 1024 << 20,
    )  # fmt: skip
    assert (new.percent, new.celsius, new.watts) == (37, 61, 152.33)
    assert (old.percent, old.celsius, old.watts) == (None, 40, None)
    stats = HostMeter(tmp_path, system=tmp_path, nvidia=command).read()
    assert (stats.watts, stats.watts_of) == (152.33, "graphics cards")


def test_program_of_the_driver_that_fails_is_no_card() -> None:
    """A driver that does not fit the kernel writes an error in place of rows."""
    assert nvidia_cards((sys.executable, "-c", "raise SystemExit('no driver')")) == []


def test_cards_of_amd_are_read_from_the_kernel(tmp_path: Path) -> None:
    """Millidegrees and microwatts, as hwmon has them."""
    device = "class/drm/card1/device"
    files = {
        f"{device}/mem_info_vram_total": "17163091968",
        f"{device}/mem_info_vram_used": "1073741824",
        f"{device}/gpu_busy_percent": "12",
        f"{device}/hwmon/hwmon3/temp1_input": "45000",
        f"{device}/hwmon/hwmon3/power1_average": "33000000",
        "class/drm/card0/device/vendor": "0x8086",
    }

    (card,) = amd_cards(write(tmp_path, files))

    assert (card.memory_total, card.memory_used) == (17163091968, 1073741824)
    assert (card.percent, card.celsius, card.watts) == (12, 45, 33)


def test_measurement_is_not_repeated_at_once(tmp_path: Path) -> None:
    """Ten open pages measure no more often than one."""
    measuring = meter(tmp_path)

    assert measuring.read() is measuring.read()
