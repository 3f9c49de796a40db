"""Tar archives that the tests unpack: their own, and those pinned by a hash."""

import subprocess
from pathlib import Path


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a tar archive, compressed or not, into a folder; the files belong to this user.

    The folder may be new. `tarfile` of Python 3.11.2 (Debian 12) has no extraction filters, and
    without one it gives the files of root's run to the owners that the archive names.

    Raises `subprocess.CalledProcessError` for what is not such an archive.
    """
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["tar", "-x", "--no-same-owner", "-f", archive, "-C", folder], check=True)
