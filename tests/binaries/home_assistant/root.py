"""A root of Debian with a real Home Assistant: `python -m tests.binaries.home_assistant`.

Home Assistant needs a newer Python than the machine of the tests may have: Debian's suite `forky`
has it. The root is an entry of the test cache. Nothing in it is changed when Home Assistant runs,
so several can run from it, and a container image can be made of it.
"""

import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from hearth.lab import programs, systems
from hearth.lab.systems import System
from tests import cache
from tests.clients.environments import UV

SYSTEM: Final = System("forky", "Debian testing")
PACKAGES: Final = ("ca-certificates", "g++", "libturbojpeg0", "python3-dev", "tzdata")
LOCK: Final = Path(__file__).with_name("requirements.lock")
ENVIRONMENT: Final = "/opt/homeassistant"
"""Where the virtual environment of Home Assistant is in the root."""
SETTINGS: Final = {
    "HOME": "/tmp/home",
    "LC_ALL": "C.UTF-8",
    "PATH": f"{ENVIRONMENT}/bin:/usr/sbin:/usr/bin:/sbin:/bin",
}
BUILD: Final = {
    "SKIP_CYTHON": "1",  # of habluetooth, whose compilation takes minutes
    "UV_CACHE_DIR": "/tmp/wheels",
    "UV_LINK_MODE": "copy",
    "UV_NO_PROGRESS": "1",
}


class BuildError(Exception):
    """See that Debian's and Python's packages can be had, and that bubblewrap is installed."""


def root() -> Path:
    """Return the folder of the root; make it if needed (a few minutes, as root).

    Raises:
        BuildError: debootstrap or the installation fails; the message ends with its output.
        LabError: This machine cannot make roots.
    """
    programs.check()
    mirror = systems.mirrors_used(SYSTEM)[SYSTEM.suite]
    parts: list[cache.Part] = [LOCK, Path(__file__), mirror, platform.machine()]
    return cache.entry("home-assistant", parts, lambda folder: _make(folder, mirror))


def inside(folder: Path, *options: str, writable: bool = False) -> list[str]:
    """Return the beginning of a command line that runs a program in the root.

    Args:
        folder: The root.
        options: More options of bubblewrap, such as folders that it shows.
        writable: Whether the program may change the root.
    """
    return [
        "bwrap", "--bind" if writable else "--ro-bind", str(folder), "/",
        "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--dir", SETTINGS["HOME"],
        "--ro-bind", "/etc/resolv.conf", "/etc/resolv.conf",
        "--unshare-pid", "--die-with-parent", *options, "--",
    ]  # fmt: skip


def _make(folder: Path, mirror: str) -> None:
    script = () if Path("/usr/share/debootstrap/scripts", SYSTEM.suite).exists() else ("sid",)
    # debootstrap mounts /proc in there: in a separate mount namespace none is left over.
    _run(
        "unshare", "--mount", "--", str(programs.found("debootstrap")), "--variant=minbase",
        f"--include={','.join(PACKAGES)}", SYSTEM.suite, str(folder), mirror, *script,
    )  # fmt: skip
    for archive in folder.glob("var/cache/apt/archives/*.deb"):
        archive.unlink()
    wheels = Path(os.environ.get("UV_CACHE_DIR", "~/.cache/uv")).expanduser()
    wheels.mkdir(parents=True, exist_ok=True)
    uv = inside(
        folder,
        *("--bind", str(wheels), BUILD["UV_CACHE_DIR"], "--ro-bind", str(UV), "/tmp/uv"),
        *("--ro-bind", str(LOCK), "/tmp/requirements.lock"),
        *("--ro-bind", "/etc/ssl/certs", "/etc/ssl/certs"),
        writable=True,
    )
    _run(*uv, "/tmp/uv", "venv", "--python", "/usr/bin/python3", ENVIRONMENT, settings=BUILD)
    install = ("/tmp/uv", "pip", "sync", "--python", ENVIRONMENT, "--require-hashes")
    _run(*uv, *install, "--compile-bytecode", "/tmp/requirements.lock", settings=BUILD)


def _run(*command: str, settings: Mapping[str, str] | None = None) -> None:
    with tempfile.TemporaryFile() as output:
        ended = subprocess.run(
            command, stdout=output, stderr=output, check=False,
            env={**os.environ, **SETTINGS, **(settings or {})} if settings else None,
        )  # fmt: skip
        if ended.returncode != 0:
            output.seek(0)
            text = output.read().decode(errors="replace")[-3000:]
            raise BuildError(f"{shutil.which(command[0]) or command[0]} failed:\n{text}")
