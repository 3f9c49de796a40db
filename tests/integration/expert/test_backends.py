"""The engines for graphics cards, compiled in roots of the systems that have the packages.

No machine of the tests has a graphics card. The tests show that the packages of the role suffice to
configure, compile and link each backend, and that the packages for run time, with the library of
the driver, suffice to load the result on a machine without compilers. Programs load a backend as a
library, so they are compiled once, with Vulkan. The part for processors is compiled in one variant,
and that for cards for one generation of them.
"""

import json
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Final

import pytest

from hearth.lab import systems
from hearth.lab.systems import System
from tests import cache
from tests.integration.expert import build_engines

EXTENDED_INPUTS = [
    "ansible/roles/llama_cpp/vars/main.yaml",
    "requirements/engines.lock",
    "tests/integration/expert/build_engines.py",
]
pytestmark = [
    pytest.mark.extended, pytest.mark.hosts, pytest.mark.engines, pytest.mark.timeout(6 * 3600),
]  # fmt: skip

ROLE = build_engines.LLAMA
BUILT_ON: Final = {
    "vulkan": System("trixie", "Debian 13"),
    "cuda": System("trixie", "Debian 13", components=("main", "contrib", "non-free")),
    # No release has HIP 6.1 or newer yet.
    "rocm": System("forky", "Debian testing"),
}
RELEASE: Final = {"cuda": "debian13", "rocm": "debian14"}
"""The name in the role of the release that has, or will have, these packages."""
GENERATION: Final = {
    "vulkan": [],
    "cuda": ["-DCMAKE_CUDA_ARCHITECTURES=75"],
    "rocm": ["-DGPU_TARGETS=gfx1030"],
}
"""Flags that select one generation of cards: Turing of NVIDIA, RDNA 2 of AMD."""
LIBRARY: Final = {
    "vulkan": "libggml-vulkan.so",
    "cuda": "libggml-cuda.so",
    "rocm": "libggml-hip.so",
}

DRIVER: Final = {"cuda": ["libcuda1"]}
"""Packages with the library of the vendor's driver, which a person installs with the driver."""


class Root:
    """A tree of a system to run programs in, as root and without a service."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, command: str) -> str:
        """Run a shell command inside; return what it prints, or fail with the end of it."""
        shutil.copy("/etc/resolv.conf", self.folder / "etc" / "resolv.conf")
        # Packages may make nodes in /dev, which must not be this machine's.
        script = (
            'mount -t proc proc "$0/proc" && mount -t tmpfs tmpfs "$0/dev" &&'
            " for node in null zero full random urandom tty; do"
            ' touch "$0/dev/$node" && mount --bind "/dev/$node" "$0/dev/$node"; done &&'
            ' exec chroot "$0" sh -c "$1"'
        )
        ended = subprocess.run(
            ["unshare", "--mount", "--pid", "--fork", "sh", "-c", script, self.folder, command],
            capture_output=True, text=True, check=False,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive",
                 "HOME": "/root", "LC_ALL": "C.UTF-8"},
        )  # fmt: skip
        assert ended.returncode == 0, (ended.stdout + ended.stderr)[-4000:]
        return ended.stdout

    def install(self, packages: list[str]) -> None:
        """Install packages of the system, from its own mirror."""
        (self.folder / "etc/apt/apt.conf.d/90lab").unlink(missing_ok=True)
        words = " ".join(packages)
        # The index of Debian testing expires where a mirror is not renewed each week.
        old = "-o Acquire::Check-Valid-Until=false"
        self.run(f"apt-get -q {old} update && apt-get -qy install --no-install-recommends {words}")


def folder_of(backend: str) -> Path:
    """Return where a build of these inputs goes on if it was interrupted."""
    parts: list[cache.Part] = [
        build_engines.LOCK,
        json.dumps([flags(backend), packages(backend), ROLE_TARGETS]),
    ]
    return cache.root() / "backends" / f"{backend}-{cache.key(parts)}"


ROLE_TARGETS: list[str] = ROLE["__llama_cpp_targets"]
TARGETS: Final = {"vulkan": ROLE_TARGETS, "cuda": ["ggml-cuda"], "rocm": ["ggml-hip"]}


def flags(backend: str) -> list[str]:
    """Return the flags of the role, with the processor's part as one library to load."""
    role = ROLE["__llama_cpp_flags_all"] + ROLE["__llama_cpp_flags_own"]
    own = ROLE["__llama_cpp_flags_backend"][backend]
    return [*role, *own, *GENERATION[backend], "-DGGML_BACKEND_DL=ON"]


def packages(backend: str) -> list[str]:
    """Return the packages that the role compiles with."""
    return [*ROLE["__llama_cpp_packages_all"], *ROLE["__llama_cpp_packages_backend"][backend]]


def runtime_packages(backend: str) -> list[str]:
    """Return the packages that the role installs on each machine that gets the engine."""
    libraries = ROLE["__llama_cpp_card_libraries"]
    if backend in libraries:
        return ["libgomp1", *libraries[backend][RELEASE[backend]]]
    found: list[str] = ROLE["__llama_cpp_runtime_packages_backend"][backend]
    return found


def copy_of(backend: str, name: str) -> Root:
    """Return a root of the backend's system, as its installer leaves it, unless it was begun."""
    folder = folder_of(backend) / name
    if not (folder / "begun").exists():
        bases = cache.root() / "backends" / "roots"
        tree = systems.make(bases, BUILT_ON[backend], keep=bases.glob("*"), report=print)
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "--archive", tree, folder], check=True)
        (folder / "begun").touch()
    return Root(folder)


def source_into(folder: Path) -> None:
    """Unpack the pinned source of llama.cpp, which its Python package brings."""
    if folder.exists():
        return
    compiled, _ = build_engines.split_lock(build_engines.LOCK.read_text(encoding="utf-8"))
    place = folder.with_name("download")
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    (place / "lock.txt").write_text(compiled["llama-cpp-python"], encoding="utf-8")
    build_engines.run(
        str(build_engines.LLAMA_CPP.resolve().with_name("venv") / "bin" / "python"),
        "-m", "pip", "download", "--quiet", "--no-deps", "--no-build-isolation",
        "--no-binary=llama-cpp-python", "--require-hashes", "-d", str(place),
        "-r", str(place / "lock.txt"),
    )  # fmt: skip
    (archive,) = place.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(place / "source", filter="data")
    (package,) = (place / "source").iterdir()
    (package / "vendor" / "llama.cpp").rename(folder)


@pytest.mark.parametrize("backend", list(BUILT_ON))
def test_backend_compiles_links_and_loads_without_a_card(backend: str) -> None:
    """A home's first machine with a card must not be the first to compile this."""
    machine = machine_with(backend)

    linked = machine.run(f"ldd /opt/bin/{LIBRARY[backend]}")
    assert "not found" not in linked, linked
    load = f"import ctypes; ctypes.CDLL('/opt/bin/{LIBRARY[backend]}'); print('loaded')"
    assert machine.run(f'python3 -c "{load}"') == "loaded\n"


def test_server_starts_without_a_card() -> None:
    """It computes on the processor then."""
    machine = machine_with("vulkan")

    assert "--gpu-layers" in machine.run("/opt/bin/llama-server --help")
    devices = machine.run("/opt/bin/llama-server --list-devices")
    assert "Available devices:" in devices


def machine_with(backend: str) -> Root:
    """Compile a backend, and return a second root with the result and the packages it needs."""
    builder = copy_of(backend, "builder")
    source_into(builder.folder / "src")
    builder.install(packages(backend))
    words = " ".join(f"'{flag}'" for flag in flags(backend))
    builder.run(f"cmake -S /src -B /build -G Ninja {words}")
    builder.run(f"cmake --build /build --target {' '.join(TARGETS[backend])}")
    machine = copy_of(backend, "machine")
    machine.install([*runtime_packages(backend), *DRIVER.get(backend, [])])
    shutil.rmtree(machine.folder / "opt" / "bin", ignore_errors=True)
    subprocess.run(
        ["cp", "--archive", builder.folder / "build/bin", machine.folder / "opt/"], check=True
    )
    return machine
