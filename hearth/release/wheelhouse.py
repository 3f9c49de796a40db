"""Our own code and all that it needs, as one archive that a machine installs without an index.

The archive holds wheels and `requirements.txt`, which pins each of them by its sha256. It is made
once per version, architecture and Python, on the controller.
"""

import fcntl
import hashlib
import importlib.util
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from hearth.release.errors import CommandFailed
from hearth.service.version import hearth_version

PACKAGES: Final = ("hearth", "moe_gateway", "llama_expert", "pipecatapp", "speech")
CATALOGUE: Final = "group_vars/all/models.yaml"
LOCK: Final = "requirements/host.lock"
GLIBC: Final = range(36, 16, -1)
"""Minor versions of the C library whose wheels Debian 12 (2.36) runs: PEP 600."""
KEPT: Final = 2
BUILD: Final = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"


def stamp(root: Path) -> str:
    """The version with a digest of all that goes into it, such as `0.1.0-3f2a9c0b1d2e`."""
    digest = hashlib.sha256()
    for file in sorted(_sources(root)):
        digest.update(str(file.relative_to(root)).encode() + b"\0")
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return f"{hearth_version()}-{digest.hexdigest()[:12]}"


def build(root: Path, folder: Path, *, arch: str, python: str) -> Path:
    """The archive for machines of that architecture and Python (`3.11`); made unless it is there.

    Raises `CommandFailed` where a wheel can be had nowhere.
    """
    archive = folder / f"hearth-{stamp(root)}-{arch}-py{python}.tar"
    if archive.exists():
        return archive
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            _make(root, archive, arch=arch, python=python)
            for older in _older(folder.glob(f"hearth-*-{arch}-py{python}.tar")):
                older.unlink()
    return archive


def _older(made: Iterable[Path]) -> list[Path]:
    """Machines keep one version beside the one in use; so does the controller."""
    return sorted(made, key=lambda path: path.stat().st_mtime)[:-KEPT]


def _sources(root: Path) -> Iterator[Path]:
    for package in PACKAGES:
        for file in (root / package).rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts:
                yield file
    for name in ("pyproject.toml", CATALOGUE, LOCK):
        yield root / name


def _make(root: Path, archive: Path, *, arch: str, python: str) -> None:
    ours = _build_wheel(root, archive.with_suffix(".wheel"))
    name, number = ours.name.split("-")[:2]
    digest = hashlib.sha256(ours.read_bytes()).hexdigest()
    requirements = ours.with_name("requirements.txt")
    lock = (root / LOCK).read_text(encoding="utf-8")
    requirements.write_text(f"{lock}\n{name}=={number} --hash=sha256:{digest}\n", encoding="utf-8")
    wheels = _locked_wheels(root, archive.parent, arch=arch, python=python)
    draft = archive.with_suffix(".draft")
    with tarfile.open(draft, "w") as tar:
        for file in sorted([ours, requirements, *wheels.glob("*.whl")]):
            tar.add(file, arcname=file.name)
    draft.rename(archive)
    shutil.rmtree(ours.parent)


def _locked_wheels(root: Path, folder: Path, *, arch: str, python: str) -> Path:
    """Wheels of others, fetched once per lock: our own code may change without a network."""
    digest = hashlib.sha256((root / LOCK).read_bytes()).hexdigest()[:12]
    wheels = folder / f"wheels-{digest}-{arch}-py{python}"
    if not wheels.exists():
        draft = wheels.with_suffix(".draft")
        draft.mkdir(exist_ok=True)
        _run(_download(root / LOCK, draft, arch=arch, python=python), root)
        draft.rename(wheels)
        for older in _older(folder.glob(f"wheels-*-{arch}-py{python}")):
            shutil.rmtree(older)
    return wheels


def _build_wheel(root: Path, folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    builder = sys.executable if importlib.util.find_spec("hatchling") else _tools(root)
    _run([builder, "-c", BUILD, str(folder)], root)
    return next(folder.glob("hearth-*.whl"))


def _tools(root: Path) -> str:
    return str(root / ".tools" / "uv" / "bin" / "python")


def _download(lock: Path, folder: Path, *, arch: str, python: str) -> list[str]:
    platforms = [f"manylinux_2_{minor}_{arch}" for minor in GLIBC]
    platforms += [f"manylinux{old}_{arch}" for old in ("2014", "2010", "1")]
    abi = f"cp{python.replace('.', '')}"
    return [
        sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-input",
        "--quiet", "--retries", "5", "--timeout", "60", "--require-hashes", "--no-deps", "--only-binary", ":all:",
        "--dest", str(folder),
        "--python-version", python, "--implementation", "cp",
        *[word for tag in (abi, "abi3", "none") for word in ("--abi", tag)],
        *[word for platform in platforms for word in ("--platform", platform)],
        "--requirement", str(lock),
    ]  # fmt: skip


def _run(command: Sequence[str], root: Path) -> None:
    ended = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise CommandFailed(command, ended.stdout + ended.stderr)
