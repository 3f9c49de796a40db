"""What the preflight report says of a machine, and what Nomad is told of its graphics card."""

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

import pytest

from tests.ansible import tree


@pytest.fixture(scope="module")
def probe() -> ModuleType:
    """The module as Ansible finds it."""
    return tree.module("host_probe")


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
        (("judge_system", {"ID": "debian", "VERSION_ID": "13"}), "pass"),
        (("judge_system", {"ID": "debian", "VERSION_ID": "11"}), "warn"),
        (("judge_system", {"ID": "ubuntu", "ID_LIKE": "debian", "VERSION_ID": "24.04"}), "pass"),
        (("judge_system", {"ID": "ubuntu", "ID_LIKE": "debian", "VERSION_ID": "22.04"}), "warn"),
        (("judge_system", {"ID": "linuxmint", "ID_LIKE": "ubuntu debian"}), "warn"),
        (("judge_system", {"ID": "fedora"}), "fail"),
        (("judge_processor", ["sse2", "avx2"], ["avx2"], []), "pass"),
        (("judge_processor", ["sse2"], ["avx2"], []), "fail"),
        (("judge_processor", ["sse2"], ["avx2"], [{"name": "x64", "flags": []}]), "pass"),
        (("judge_processor", ["sse2"], [], [{"name": "new", "flags": ["avx2"]}]), "fail"),
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


def link(root: Path, name: str, *, wireless: bool, state: str = "up") -> None:
    """Files as the kernel shows a network interface of hardware."""
    folder = root / "sys/class/net" / name
    (folder / "device").mkdir(parents=True)
    (folder / "operstate").write_text(f"{state}\n")
    if wireless:
        (folder / "wireless").mkdir()


def test_machine_with_wifi_only_gets_a_warning(probe: ModuleType, tmp_path: Path) -> None:
    """A server that is away for seconds at a time costs elections."""
    link(tmp_path, "wlp2s0", wireless=True)
    link(tmp_path, "enp1s0", wireless=False, state="down")
    without_cable = probe.judge_links(probe.physical_links(tmp_path))
    (tmp_path / "sys/class/net/enp1s0/operstate").write_text("up\n")

    assert without_cable["state"] == "warn"
    assert "Use a cable" in without_cable["remedy"]
    assert probe.judge_links(probe.physical_links(tmp_path))["state"] == "pass"


def test_address_from_dhcp_gets_a_warning_unless_it_is_reserved(probe: ModuleType) -> None:
    """Another address after a power cut, and the others look for it in vain."""
    leased = probe.judge_lease("192.168.1.7", {"192.168.1.7"}, reserved=False)

    assert leased["state"] == "warn"
    assert "Reserve 192.168.1.7 for this machine in your router" in leased["remedy"]
    assert probe.judge_lease("192.168.1.7", {"192.168.1.7"}, reserved=True)["state"] == "pass"
    assert probe.judge_lease("192.168.1.8", {"192.168.1.7"}, reserved=False)["state"] == "pass"


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """A folder that every user may enter; pytest's own are closed to others."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_device_that_the_services_cannot_open_fails(probe: ModuleType, open_to_all: Path) -> None:
    """The engine then computes on the processor, or crashes, and nobody knows why."""
    node = open_to_all / "dev/dri/renderD128"
    node.parent.mkdir(parents=True)
    node.write_text("")
    # Closed to its owner, too: only root can switch to another user.
    node.chmod(0o000)
    (closed,) = probe.judge_devices("vulkan", "nobody", [], open_to_all)
    node.chmod(0o666)
    (opened,) = probe.judge_devices("vulkan", "nobody", ["render"], open_to_all)
    node.unlink()
    (missing,) = probe.judge_devices("vulkan", "nobody", [], open_to_all)

    assert (closed["state"], opened["state"], missing["state"]) == ("fail", "pass", "fail")
    assert f"chgrp render {node}" in closed["remedy"]
    assert "llama_cpp_backend: cpu" in missing["remedy"]
    assert probe.judge_devices("cpu", "nobody", [], open_to_all) == []


def test_groups_of_the_services_are_those_that_exist(probe: ModuleType, tmp_path: Path) -> None:
    """A machine without a graphics card may have neither."""
    groups = tmp_path / "group"
    groups.write_text("root:x:0:\nvideo:x:44:me\n")

    assert probe.group_ids(["render", "video"], groups) == [44]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A server that has one file."""

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(200 if self.path == "/there" else 404)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as found:
        thread = threading.Thread(target=found.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{found.server_port}"
        found.shutdown()
        thread.join()


def test_file_that_is_missing_has_to_be_available(
    probe: ModuleType, server: str, tmp_path: Path
) -> None:
    """An archive that was removed upstream is found before anything is installed."""
    source = {"feature": "archive", "file": str(tmp_path / "*.zip"), "remedy": "Pin another."}

    there = probe.judge_source(source | {"url": f"{server}/there"})
    gone = probe.judge_source(source | {"url": f"{server}/gone"})
    (tmp_path / "consul.zip").write_text("")
    copied = probe.judge_source(source | {"url": f"{server}/gone"})

    assert (there["state"], gone["state"], copied["state"]) == ("pass", "fail", "pass")
    assert "HTTP 404" in gone["evidence"]


def test_mirror_of_packages_that_does_not_answer_fails(probe: ModuleType) -> None:
    """apt would try for minutes, on every machine."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        silent = probe.judge_mirror("127.0.0.1", port)
        held.listen()
        answers = probe.judge_mirror("127.0.0.1", port)

    assert (silent["state"], answers["state"]) == ("fail", "pass")
    assert "apt's sources and proxy" in silent["remedy"]


def test_mirrors_are_those_of_a_proxy_where_there_is_one(probe: ModuleType, tmp_path: Path) -> None:
    """They are asked only until the packages are there."""
    assert probe.host_and_port("http://proxy.test:3142") == ("proxy.test", 3142)
    assert probe.host_and_port("https://mirror.test/debian") == ("mirror.test", 443)
    assert probe.package_hosts(str(tmp_path)) == []


def test_port_is_free_for_what_nomad_has_started(probe: ModuleType, tmp_path: Path) -> None:
    """The second run finds the gateway on its port, and a stranger's program is a stranger's."""
    processes = {
        20: ("nomad", 1, ""), 30: ("python3", 20, ""), 40: ("python3", 1, "HOME=/root\0"),
        50: ("python3", 1, "HOME=/\0NOMAD_ALLOC_ID=5cc0\0"), 60: ("python3", 50, ""),
    }  # fmt: skip
    for pid, (name, parent, environment) in processes.items():
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "comm").write_text(f"{name}\n")
        (tmp_path / str(pid) / "environ").write_text(environment)
        (tmp_path / str(pid) / "status").write_text(f"Name:\t{name}\nPPid:\t{parent}\n")

    found = [pid for pid in processes if probe.is_of_nomad(str(pid), tmp_path)]

    assert found == [20, 30, 50, 60]


def test_package_is_new_enough_or_told(probe: ModuleType) -> None:
    """Debian 12's Vulkan headers compile for ten minutes before they fail."""
    old = probe.judge_package("libvulkan-dev", "1.3.272", "1.3.239.0-1", [])

    assert old["state"] == "fail"
    assert "The engine needs 1.3.272" in old["remedy"]
    assert probe.judge_package("libvulkan-dev", "1.3.272", "1.4.309.0-1", [])["state"] == "pass"
    assert probe.judge_package("nvidia-cuda-toolkit", "", None, [])["state"] == "pass"
    enabled = probe.judge_package("nvidia-cuda-toolkit", "", "", ["contrib", "non-free"])
    assert enabled["state"] == "pass"


@pytest.mark.parametrize(
    ("architecture", "flags", "variant"),
    [
        ("x86_64", "fpu sse2", "x64"),
        ("x86_64", "fpu sse2 sse4_2 movbe", "sse42"),
        ("x86_64", "sse4_2 avx f16c fma avx2 bmi2 avx_vnni", "alderlake"),
        ("x86_64", "sse4_2 avx f16c fma avx2 bmi2 avx512f avx512cd avx512bw avx512dq avx512vl",
         "skylakex"),
        ("aarch64", "fp asimd", "armv8.0_1"),
        ("aarch64", "fp asimd asimdhp asimddp", "armv8.2_2"),
    ],
)  # fmt: skip
def test_report_names_the_variant_that_the_engine_will_choose(
    probe: ModuleType, tmp_path: Path, architecture: str, flags: str, variant: str
) -> None:
    """A mini PC without AVX2 is a machine like others, and a person sees what it will run."""
    words = "flags" if architecture == "x86_64" else "Features"
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"processor : 0\n{words} : {flags}\n")
    table = tree.load(tree.ROOT / "ansible/roles/llama_cpp/vars/main.yaml")

    found = probe.judge_processor(
        probe.processor_flags(cpuinfo), ["none"], table["__llama_cpp_cpu_variants"][architecture]
    )

    assert found["evidence"] == f"engines use their variant {variant}"
