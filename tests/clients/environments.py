"""Client packages that cannot live in our own environment: each has its own, from its own lock.

`python -m tests.clients.environments` makes those that are missing, below `.cache/clients`, as
`./bootstrap.sh --test` does; with `--there` it tells by its exit code whether none is missing. The
folder beside this file holds, for each, what is wanted (`requirements.in`), what that came to, with
hashes (`requirements.lock`), and the program that asks a gateway everything that the client can ask
(`conformance.py`).
"""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "tests" / "clients"
PLACE = ROOT / ".cache" / "clients"
LOCK = "requirements.lock"
UV = ROOT / ".tools" / "uv" / "bin" / "uv"


def names() -> list[str]:
    """Every client that is a Python package."""
    return sorted(lock.parent.name for lock in SOURCE.glob(f"*/{LOCK}"))


def python_of(name: str) -> Path:
    """The interpreter with that client; its environment is made if it is not there yet."""
    return made(PLACE / name, SOURCE / name / LOCK)


def made(folder: Path, lock: Path) -> Path:
    """The interpreter of an environment that holds what the lock names; a second call does nothing.

    Raises `CalledProcessError` when a package cannot be had.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{folder.name}.lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if not is_made(folder, lock):
            shutil.rmtree(folder, ignore_errors=True)
            _uv("venv", "--python", sys.executable, str(folder))
            _uv("pip", "sync", "--python", str(folder), "--require-hashes", str(lock))
            (folder / "complete").write_text(_stamp(folder, lock))
    return folder / "bin" / "python"


def is_made(folder: Path, lock: Path) -> bool:
    """Whether the environment is complete, and of this lock, this Python and this place."""
    stamp = folder / "complete"
    return stamp.is_file() and stamp.read_text() == _stamp(folder, lock)


def _stamp(folder: Path, lock: Path) -> str:
    return f"{sys.version} {folder}\n{lock.read_text()}"


def _uv(*command: str) -> None:
    environment = {**os.environ, "UV_PYTHON_DOWNLOADS": "never"}
    subprocess.run([UV, "--quiet", *command], env=environment, check=True)


if __name__ == "__main__":
    if "--there" in sys.argv:
        sys.exit(not all(is_made(PLACE / name, SOURCE / name / LOCK) for name in names()))
    for client in names():
        python_of(client)
