"""What the preflight report says of a machine, and what Nomad is told of its graphics card."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from tests.ansible import tree


@pytest.fixture(scope="module")
def probe() -> ModuleType:
    """The module as Ansible finds it."""
    file = tree.ROOT / "ansible" / "plugins" / "modules" / "host_probe.py"
    spec = importlib.util.spec_from_file_location("host_probe", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def card(root: Path, vendor: str, *, vram: int = 0, render: bool = True, kfd: bool = False) -> None:
    """Files as the kernel shows a graphics card."""
    device = root / "sys/class/drm/card0/device"
    device.mkdir(parents=True)
    (device / "vendor").write_text(f"{vendor}\n")
    (device / "device").write_text("0x744c\n")
    if vram:
        (device / "mem_info_vram_total").write_text(f"{vram}\n")
    if render:
        (root / "dev/dri/by-path").mkdir(parents=True)
        (root / "dev/dri/by-path/pci-0000:03:00.0-render").write_text("")
    if kfd:
        (root / "dev/kfd").write_text("")


def test_machine_without_a_card_computes_on_its_processor(
    probe: ModuleType, tmp_path: Path
) -> None:
    """Most machines of a home have none; that is no mistake."""
    gpu = probe.probe_gpu(tmp_path)

    assert gpu == {"vendor": "none", "name": "", "backend": "cpu", "vram_mb": 0}
    assert probe.judge_gpu(gpu)["state"] == "pass"


@pytest.mark.parametrize(
    ("vendor", "kfd", "backend"), [("0x1002", True, "rocm"), ("0x1002", False, "vulkan"),
                                   ("0x8086", False, "vulkan")],
)  # fmt: skip
def test_backend_is_what_the_driver_allows(
    probe: ModuleType, tmp_path: Path, vendor: str, *, kfd: bool, backend: str
) -> None:
    """An engine for a card without its driver ends at the first word."""
    card(tmp_path, vendor, vram=24 * 1024**3, kfd=kfd)

    gpu = probe.probe_gpu(tmp_path)

    assert gpu["backend"] == backend
    assert gpu["vram_mb"] == 24 * 1024


def test_card_without_a_driver_is_a_warning_with_a_remedy(
    probe: ModuleType, tmp_path: Path
) -> None:
    """People buy a card and wonder why nothing is faster."""
    card(tmp_path, "0x1002", render=False)

    found = probe.judge_gpu(probe.probe_gpu(tmp_path))

    assert found["state"] == "warn"
    assert "driver" in found["remedy"]


def test_port_is_free_for_the_program_that_it_is_for(probe: ModuleType) -> None:
    """A second run finds our own programs on their ports."""
    held = {8500: "consul", 4646: "nginx"}

    assert probe.judge_port("8500", "consul", held)["state"] == "pass"
    assert probe.judge_port("8600", "consul", held)["state"] == "pass"
    taken = probe.judge_port("4646", "nomad", held)
    assert taken["state"] == "fail"
    assert "nginx" in taken["remedy"]


@pytest.mark.parametrize(
    ("judged", "state"),
    [
        (("judge_clock", 1000.0, 1010.0, 30.0), "pass"),
        (("judge_clock", 1000.0, 5000.0, 30.0), "fail"),
        (("judge_memory", 8 << 30, 1 << 30), "pass"),
        (("judge_memory", 1 << 29, 1 << 30), "warn"),
        (("judge_port_range", "32768\t60999", "20000-32000"), "pass"),
        (("judge_port_range", "10000\t60999", "20000-32000"), "warn"),
        (("judge_address", "10.0.0.1", {"10.0.0.1"}), "pass"),
        (("judge_address", "10.0.0.9", {"10.0.0.1"}), "fail"),
        (("judge_architecture", "riscv64"), "fail"),
        (
            ("judge_system", {"ID": "debian", "VERSION_ID": "12", "PRETTY_NAME": "Debian 12"}),
            "pass",
        ),
        (("judge_system", {"ID": "ubuntu", "ID_LIKE": "debian", "PRETTY_NAME": "Ubuntu"}), "warn"),
        (("judge_system", {"ID": "linuxmint", "ID_LIKE": "ubuntu debian"}), "warn"),
        (("judge_system", {"ID": "fedora"}), "fail"),
        (("judge_folder", "/proc/nowhere", 10**18), "fail"),
        (("judge_passwordless", ["/etc/sudoers.d/me"]), "warn"),
    ],
)
def test_check_judges_and_says_what_to_do(
    probe: ModuleType, judged: tuple[str, ...], state: str
) -> None:
    """A report without remedies is a riddle."""
    name, *given = judged

    found = getattr(probe, name)(*given)

    assert found["state"] == state
    assert bool(found["remedy"]) == (state != "pass")
