"""Packages that ship their tests, pinned by hash, and the test file of each of their modules."""

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests import cache
from tests.support import archives

LIST = Path(__file__).with_name("projects.txt")
MODULES = 40
"""Modules of one package at most, chosen by the seed."""


@dataclass(frozen=True)
class Target:
    """A module and the command that runs its tests, in the folder of a package."""

    package: str
    path: str
    command: str


def unpack(folder: Path) -> None:
    """Unpack every package into a folder of its name."""
    for archive in sorted(_archives().iterdir()):
        target = folder / archive.name.partition("-")[0]
        if archive.suffix == ".whl":
            with zipfile.ZipFile(archive) as wheel:
                wheel.extractall(target)
        elif archive.name.endswith(".tar.gz"):
            archives.unpack(archive, target)
            (inner,) = target.iterdir()
            inner.rename(folder / "inner")
            target.rmdir()
            (folder / "inner").rename(target)


def targets(folder: Path, random: Random) -> dict[str, list[Target]]:
    """Return modules of the unpacked packages that have a test file of their name."""
    found: dict[str, list[Target]] = {}
    for package in ("boltons", "networkx", "toolz"):
        pairs = sorted(_pairs(folder / package))
        random.shuffle(pairs)
        found[package] = [
            # boltons has a conftest.py for an older pytest.
            Target(package, path, f"pytest -q --noconftest {test}")
            for path, test in pairs[:MODULES]
        ]
    return found


def _pairs(root: Path) -> Iterator[tuple[str, str]]:
    for test in root.rglob("tests/test_*.py"):
        name = test.name.removeprefix("test_")
        beside = [test.parents[1] / name, *(root / root.name / name,)]
        module = next((one for one in beside if one.is_file()), None)
        if module is not None:
            yield str(module.relative_to(root)), str(test.relative_to(root))


def _archives() -> Path:
    return cache.entry("code-mutants", [LIST], _download)


def _download(folder: Path) -> None:
    """boltons has its tests in the source archive only, which pip builds to know its name."""
    for line in LIST.read_text(encoding="ascii").splitlines():
        wanted = folder / "wanted.txt"
        wanted.write_text(f"{line}\n", encoding="ascii")
        kind = "--no-binary=:all:" if line.startswith("boltons") else "--only-binary=:all:"
        words = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", kind]
        words += ["--disable-pip-version-check", "--require-hashes"]
        subprocess.run([*words, "--dest", str(folder), "-r", str(wanted)], check=True)
    wanted.unlink()
