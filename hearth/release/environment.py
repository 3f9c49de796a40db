"""Archives of our code and its dependencies, which a machine unpacks into an environment.

The dependencies are grouped in sets, each with a separate lock file: a machine gets the sets that
its services need. A set is fetched, checked by the sha256 of each wheel and installed on the
controller, once per lock, architecture and Python; our own code is one small archive per version.
All of them hold the same bytes wherever the same Python makes them: their paths begin at the
environment's root, `lib/python3.11` and `bin`. Bytecode is in them where the controller has the
machines' Python, since the smallest machine takes longest to compile it; what lacks it is compiled
where it is unpacked.
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
    "hearth", "moe_gateway", "llama_expert", "pipecatapp", "prompt_engineering", "speech",
)  # fmt: skip
CATALOGUE: Final = "group_vars/all/models.yaml"
LOCKS: Final = {name: f"requirements/{name}.lock" for name in ("host", "speech", "agent")}
"""Set -> what is in it. `host`: the `hearth` command and what Nomad may start on every machine.
`speech`: ears and voices. `agent`: the agent with the voice of its page. Each is complete."""
GLIBC: Final = range(36, 16, -1)
"""Minor versions of the C library whose wheels Debian 12 (2.36) runs: PEP 600."""
KEPT: Final = 2
BUILD: Final = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
COMMAND: Final = """#!/bin/sh
exec "${0%/*}/python" -P -c 'import sys, hearth.cli; sys.argv[0] = "hearth"; hearth.cli.main()' "$@"
"""
"""`bin/hearth`, which works in an environment at any path."""
MADE: Final = 315532800
"""Time of every file in an archive, in seconds: the beginning of 1980, as in wheels."""
FORM: Final = b"2"
"""Which way of making archives of packages this is: of one lock, two ways make two archives."""


def stamp(root: Path) -> str:
    """The version with a digest of all that goes into it, such as `0.1.0-3f2a9c0b1d2e`."""
    digest = hashlib.sha256()
    for file in sorted(_sources(root)):
        digest.update(str(file.relative_to(root)).encode() + b"\0")
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return f"{hearth_version()}-{digest.hexdigest()[:12]}"


def build(
    root: Path, folder: Path, *, arch: str, python: str, sets: Sequence[str] = tuple(LOCKS)
) -> list[Path]:
    """Return the archives for machines of that architecture and Python (`3.11`), ours last.

    Archives that exist in `folder` are reused. Raises `CommandFailed` if a wheel is not available.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        theirs = [_packages(root, folder, name, arch=arch, python=python) for name in sets]
        return [*theirs, _ours(root, folder, python=python)]


def _packages(root: Path, folder: Path, name: str, *, arch: str, python: str) -> Path:
    """Build or reuse the archive of third-party packages, so our code can change without a
    network."""
    lock = root / LOCKS[name]
    digest = hashlib.sha256(FORM + lock.read_bytes()).hexdigest()[:12]
    archive = folder / f"packages-{name}-{digest}-{arch}-py{python}.tar.gz"
    if not archive.exists():
        with _drafted(archive) as (tree, draft):
            target = tree / _libraries(python)
            _run(_install(lock, target, arch=arch, python=python), root)
            # Commands of others, whose first lines name the controller's Python.
            shutil.rmtree(target / "bin", ignore_errors=True)
            _compile(tree, python)
            _pack(tree, draft)
        _sweep(folder.glob(f"packages-{name}-*-{arch}-py{python}.tar.gz"))
    return archive


def _ours(root: Path, folder: Path, *, python: str) -> Path:
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
        _sweep(folder.glob(f"hearth-*-py{python}.tar.gz"))
    return archive


@contextmanager
def _drafted(archive: Path) -> Iterator[tuple[Path, Path]]:
    """A tree to fill and a file to pack it into, which becomes the archive in the end."""
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
    # The order of a constant set's members follows the seed.
    compiler = ["env", "PYTHONHASHSEED=0", sys.executable, "-m", "compileall", "-q", "-j0"]
    _run([*compiler, "-s", str(tree), str(tree)], tree)


def _pack(tree: Path, archive: Path) -> None:
    """Compressed the fast way: what is saved on a slow line must not be lost on the controller."""
    with (
        archive.open("wb") as raw,
        gzip.GzipFile("", "wb", compresslevel=1, fileobj=raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as tar,
    ):
        for path in sorted(tree.rglob("*")):
            tar.add(path, path.relative_to(tree), recursive=False, filter=_the_same_everywhere)


def _the_same_everywhere(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    member.mtime = MADE
    member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
    return member


def _sweep(made: Iterable[Path]) -> None:
    """Remove old archives: as on the machines, one version is kept besides the current one."""
    for older in sorted(made, key=lambda path: path.stat().st_mtime)[:-KEPT]:
        older.unlink()


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
