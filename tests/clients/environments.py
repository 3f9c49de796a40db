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
import tempfile
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


def go_programs(source: Path, page: str) -> Path:
    """Return the folder with the programs of a Go module: `conformance`, and `page`, whose text is
    that of a documentation page. Both are compiled with the locked versions (`go.sum`).

    Raises `CalledProcessError` when a package cannot be had or a program does not compile.
    """
    go = _tool("go")

    def make(folder: Path) -> None:
        with tempfile.TemporaryDirectory() as name:
            module = Path(name) / "module"
            shutil.copytree(source, module)
            _write(module / "page" / "main.go", page)
            build = [go, "build", "-mod=readonly", "-o", f"{folder}/", "./..."]
            subprocess.run(build, cwd=module, check=True)

    return cache.entry(f"go-{source.name}", [source, page, _version(go, "version")], make)


def rust_programs(source: Path, page: str) -> Path:
    """Return the folder with the programs of a Rust package, as `go_programs` does for Go. They
    are compiled with the locked versions (`Cargo.lock`).

    Raises `CalledProcessError` when a package cannot be had or a program does not compile.
    """
    cargo = _tool("cargo")

    def make(folder: Path) -> None:
        with tempfile.TemporaryDirectory() as name:
            package = Path(name) / "package"
            shutil.copytree(source, package)
            _write(package / "src" / "bin" / "page.rs", page)
            build = [cargo, "build", "--quiet", "--locked", "--target-dir", f"{name}/target"]
            subprocess.run(build, cwd=package, check=True)
            for program in ("conformance", "page"):
                shutil.copy2(Path(name) / "target" / "debug" / program, folder)

    return cache.entry(f"rust-{source.name}", [source, page, _version(cargo, "-V")], make)


def _tool(name: str) -> str:
    tool = shutil.which(name)
    assert tool, f"{name} is not on PATH"
    return tool


def _version(*command: str) -> bytes:
    return subprocess.run(command, capture_output=True, check=True).stdout


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(text, encoding="utf-8")


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
