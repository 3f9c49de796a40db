"""Real changes: files of consecutive releases of Python packages, pinned by hash."""

import subprocess
import sys
import zipfile
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tests import cache

LIST = Path(__file__).with_name("releases.txt")
LARGEST = 60_000
"""Bytes of a file that is used."""


@dataclass(frozen=True)
class Release:
    """One file before and after a release."""

    name: str
    old: str
    new: str


def changes() -> list[Release]:
    """Every Python file that two consecutive releases have in common and that differs."""
    folder = cache.entry("code-releases", [LIST], _download)
    packages: dict[str, list[Path]] = defaultdict(list)
    for line in LIST.read_text(encoding="ascii").splitlines():
        name, _, version = line.split()[0].partition("==")
        packages[name] += folder.glob(f"{name.replace('-', '_')}-{version}-*.whl")
    found: list[Release] = []
    for wheels in packages.values():
        for before, after in pairwise(wheels):
            found += _changed(_files(before), _files(after))
    return found


def _download(folder: Path) -> None:
    for line in LIST.read_text(encoding="ascii").splitlines():
        wanted = folder / "wanted.txt"
        wanted.write_text(f"{line}\n", encoding="ascii")
        words = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        words += ["--disable-pip-version-check", "--only-binary=:all:", "--require-hashes"]
        subprocess.run([*words, "--dest", str(folder), "-r", str(wanted)], check=True)


def _files(wheel: Path) -> dict[str, str]:
    with zipfile.ZipFile(wheel) as archive:
        return {
            one.filename: archive.read(one).decode()
            for one in archive.infolist()
            if one.filename.endswith(".py") and 200 < one.file_size < LARGEST
        }


def _changed(before: dict[str, str], after: dict[str, str]) -> list[Release]:
    return [
        Release(name, old, after[name])
        for name, old in sorted(before.items())
        if after.get(name, old) != old and "\r" not in old and old.endswith("\n")
    ]
