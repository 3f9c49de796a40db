"""Build the archives of Hearth's code and its dependencies that machines unpack.

The dependencies are grouped in sets, each with a separate lock file; a machine gets the sets that
its services need. The controller downloads a set, checks the sha256 of each wheel and installs it
once for each lock file, architecture and Python. Hearth's own code is one small archive for each
version. Builds with the same Python are identical byte for byte. Paths in an archive are relative
to the environment's root (`lib/python3.11` and `bin`). Archives contain bytecode if the controller
has the Python version of the machines, because slow machines take long to compile it; otherwise
each machine compiles it after unpacking.
"""

import fcntl
import gzip
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from hearth.release.errors import CommandFailed
from hearth.service.version import hearth_version

PACKAGES: Final = (
    "hearth", "moe_gateway", "llama_expert", "pipecatapp", "power_manager", "prompt_engineering",
    "speech",
)  # fmt: skip
CATALOGUE: Final = "group_vars/all/models.yaml"
LOCKS: Final = {name: f"requirements/{name}.lock" for name in ("host", "speech", "agent")}
"""Set -> its lock file. `host`: the `hearth` command and the services that Nomad may start on any
machine. `speech`: the speech service. `agent`: the agent with its voice worker. A set contains all
dependencies of its services."""
GLIBC: Final = range(36, 16, -1)
"""Minor versions of glibc 2 whose wheels run on Debian 12, which has 2.36 (PEP 600)."""
KEPT: Final = 2
"""Number of archives of each kind to keep: the current and the previous one, as on machines."""
BUILD: Final = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
COMMAND: Final = """#!/bin/sh
exec "${0%/*}/python" -P -c 'import sys, hearth.cli; sys.argv[0] = "hearth"; hearth.cli.main()' "$@"
"""
"""Content of `bin/hearth`, which works in an environment at any path."""
MADE: Final = 315532800
"""Modification time of every file in an archive, in seconds: the start of 1980, as in wheels."""
FORM: Final = b"2"
"""Version of the format of package archives; a change makes all of them be built again."""


def stamp(root: Path) -> str:
    """Return the version with a digest of all files of a release, such as `0.1.0-3f2a9c0b1d2e`."""
    digest = hashlib.sha256()
    for file in sorted(_sources(root)):
        digest.update(str(file.relative_to(root)).encode() + b"\0")
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return f"{hearth_version()}-{digest.hexdigest()[:12]}"


def build(
    root: Path, folder: Path, *, arch: str, python: str, sets: Sequence[str] = tuple(LOCKS)
) -> list[Path]:
    """Build the archives for one kind of machine, or reuse those that exist.

    Args:
        root: The checkout.
        folder: Folder of the archives.
        arch: Architecture of the machines, `x86_64` or `aarch64`.
        python: Their Python version, such as `3.11`.
        sets: The sets of packages, keys of `LOCKS`.

    Returns:
        The paths of the archives of packages in the order of `sets`, then that of Hearth's code.

    Raises:
        CommandFailed: A package is not available for these machines.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        packages = [_build_packages(root, folder, name, arch=arch, python=python) for name in sets]
        return [*packages, _build_code(root, folder, python=python)]


def _build_packages(root: Path, folder: Path, name: str, *, arch: str, python: str) -> Path:
    """Build the archive of a set, which a change of Hearth's code does not affect."""
    lock = root / LOCKS[name]
    digest = hashlib.sha256(FORM + lock.read_bytes()).hexdigest()[:12]
    archive = folder / f"packages-{name}-{digest}-{arch}-py{python}.tar.gz"
    if not archive.exists():
        with _drafted(archive) as (tree, draft):
            target = tree / _libraries(python)
            _run(_install(lock, target, arch=arch, python=python), root)
            # Commands of packages start with the path of the controller's Python.
            shutil.rmtree(target / "bin", ignore_errors=True)
            _compile(tree, python)
            _pack(tree, draft)
        _remove_old(folder.glob(f"packages-{name}-*-{arch}-py{python}.tar.gz"))
    return archive


def _build_code(root: Path, folder: Path, *, python: str) -> Path:
    archive = folder / f"hearth-{stamp(root)}-py{python}.tar.gz"
    if not archive.exists():
        with _drafted(archive) as (tree, draft):
            (tree / "bin").mkdir()
            (tree / "bin" / "hearth").write_text(COMMAND, encoding="utf-8")
            (tree / "bin" / "hearth").chmod(0o755)
            with zipfile.ZipFile(_build_wheel(root, draft.parent)) as wheel:
                wheel.extractall(tree / _libraries(python))
            _compile(tree, python)
            _pack(tree, draft)
        _remove_old(folder.glob(f"hearth-*-py{python}.tar.gz"))
    return archive


@contextmanager
def _drafted(archive: Path) -> Iterator[tuple[Path, Path]]:
    """Yield an empty folder and the path of a draft, which is renamed to the archive at the end."""
    with tempfile.TemporaryDirectory(prefix="draft-", dir=archive.parent) as folder:
        tree, draft = Path(folder, "tree"), Path(folder, "archive")
        tree.mkdir()
        yield tree, draft
        draft.rename(archive)


def _compile(tree: Path, python: str) -> None:
    """Compile bytecode next to the sources, with the times that they will have when unpacked."""
    if python != f"{sys.version_info.major}.{sys.version_info.minor}":
        return
    for path in tree.rglob("*.py"):
        os.utime(path, (MADE, MADE))
    # Without a fixed seed, bytecode has the members of constant sets in random order.
    compiler = ["env", "PYTHONHASHSEED=0", sys.executable, "-m", "compileall", "-q", "-j0"]
    _run([*compiler, "-s", str(tree), str(tree)], tree)


def _pack(tree: Path, archive: Path) -> None:
    """Write an archive, with fast compression because the controller would be the bottleneck."""
    with (
        archive.open("wb") as raw,
        gzip.GzipFile("", "wb", compresslevel=1, fileobj=raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as tar,
    ):
        for path in sorted(tree.rglob("*")):
            tar.add(path, path.relative_to(tree), recursive=False, filter=_normalised)


def _normalised(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Replace the owner, time and mode, which differ between controllers."""
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    member.mtime = MADE
    member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
    return member


def _remove_old(archives: Iterable[Path]) -> None:
    """Remove all but the newest archives."""
    for archive in sorted(archives, key=lambda path: path.stat().st_mtime)[:-KEPT]:
        archive.unlink()


def _sources(root: Path) -> Iterator[Path]:
    for package in PACKAGES:
        for file in (root / package).rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts:
                yield file
    for name in ("pyproject.toml", CATALOGUE, *LOCKS.values()):
        yield root / name


def _libraries(python: str) -> Path:
    return Path("lib", f"python{python}", "site-packages")


def _build_wheel(root: Path, folder: Path) -> Path:
    builder = sys.executable if importlib.util.find_spec("hatchling") else _tools(root)
    _run([builder, "-c", BUILD, str(folder)], root)
    return next(folder.glob("hearth-*.whl"))


def _tools(root: Path) -> str:
    return str(root / ".tools" / "uv" / "bin" / "python")


def _install(lock: Path, target: Path, *, arch: str, python: str) -> list[str]:
    platforms = [f"manylinux_2_{minor}_{arch}" for minor in GLIBC]
    platforms += [f"manylinux{old}_{arch}" for old in ("2014", "2010", "1")]
    abi = f"cp{python.replace('.', '')}"
    return [
        sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-input",
        "--quiet", "--retries", "5", "--timeout", "60",
        "--require-hashes", "--no-deps", "--only-binary", ":all:",
        "--no-compile", "--target", str(target),
        "--python-version", python, "--implementation", "cp",
        *[word for tag in (abi, "abi3", "none") for word in ("--abi", tag)],
        *[word for platform in platforms for word in ("--platform", platform)],
        "--requirement", str(lock),
    ]  # fmt: skip


def _run(command: Sequence[str], root: Path) -> None:
    ended = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise CommandFailed(command, ended.stdout + ended.stderr)
