"""Source archives of packages, which hold their tests; pinned by hash.

The archives are an entry of the test cache, so only the first use needs a network.
"""

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from tests import cache

LIST = Path(__file__).with_name("sdists.txt")
BACKENDS = Path(__file__).with_name("backends.txt")
"""pip builds the metadata of an archive before it keeps it; with these, and no others."""


def sdists() -> Path:
    """Return the folder of the archives."""
    return cache.entry("code-sdists", [LIST, BACKENDS], _download)


def unpack(name: str, version: str, folder: Path) -> None:
    """Unpack the archive of a package as the new folder `folder`."""
    parts = folder.with_name(f"{folder.name}.parts")
    (archive,) = sdists().glob(f"{name}-{version}.tar.gz")
    with tarfile.open(archive) as file:
        file.extractall(parts, filter="data")
    (parts / f"{name}-{version}").rename(folder)
    parts.rmdir()


def _download(folder: Path) -> None:
    environment = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    pip = [str(environment / "bin" / "python"), "-m", "pip"]
    quiet = ["--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes"]
    subprocess.run([*pip, "install", *quiet, "-r", str(BACKENDS)], check=True)
    # One by one: pip takes only one version of a package at a time.
    for line in LIST.read_text(encoding="ascii").splitlines():
        wanted = folder / "wanted.txt"
        wanted.write_text(f"{line}\n", encoding="ascii")
        words = [*pip, "download", *quiet, "--no-binary=:all:", "--no-build-isolation"]
        subprocess.run([*words, "--dest", str(folder), "-r", str(wanted)], check=True)
    shutil.rmtree(environment)
