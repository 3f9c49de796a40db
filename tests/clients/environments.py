"""Client packages that cannot live in our own environment: each has its own, from its own lock.

`python -m tests.clients.environments` makes those that are missing, as entries of the test cache;
with `--there` its exit code is 1 if any is missing. For each client, the folder beside this file
holds the wanted packages (`requirements.in`), the locked ones with hashes (`requirements.lock`),
and the program that asks a gateway everything that the client can ask (`conformance.py`).
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests import cache

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "tests" / "clients"
LOCK = "requirements.lock"
UV = ROOT / ".tools" / "uv" / "bin" / "uv"


def names() -> list[str]:
    """Every client that is a Python package."""
    return sorted(lock.parent.name for lock in SOURCE.glob(f"*/{LOCK}"))


def python_of(name: str) -> Path:
    """Return the interpreter with that client; its environment is made if needed."""
    return made(name, SOURCE / name / LOCK)


def made(name: str, lock: Path) -> Path:
    """Return the interpreter of an environment that holds the packages of a lock file.

    Raises `CalledProcessError` when a package cannot be had.
    """

    def make(folder: Path) -> None:
        _uv("venv", "--allow-existing", "--python", sys.executable, str(folder))
        _uv("pip", "sync", "--python", str(folder), "--require-hashes", str(lock))

    return cache.entry(f"python-{name}", _parts(lock), make) / "bin" / "python"


def _parts(lock: Path) -> list[cache.Part]:
    return [sys.version, lock]


def node_modules(source: Path) -> Path:
    """Return a copy of a Node project with its locked packages installed.

    Raises `CalledProcessError` when a package cannot be had.
    """
    npm = shutil.which("npm")
    assert npm, "npm is not on PATH: install Debian's nodejs and npm"

    def make(folder: Path) -> None:
        shutil.copytree(source, folder, dirs_exist_ok=True)
        subprocess.run([npm, "ci", "--no-audit", "--no-fund"], cwd=folder, check=True)

    return cache.entry(f"node-{source.name}", [source], make)


def _uv(*command: str) -> None:
    environment = {**os.environ, "UV_PYTHON_DOWNLOADS": "never"}
    subprocess.run([UV, "--quiet", *command], env=environment, check=True)


def all_made() -> bool:
    """Whether the environment of every client is complete."""
    return all(cache.find(f"python-{n}", _parts(SOURCE / n / LOCK)) for n in names())


if __name__ == "__main__":
    if "--there" in sys.argv:
        sys.exit(not all_made())
    for client in names():
        python_of(client)
