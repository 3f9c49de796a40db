"""pytest for programs in the sandbox, and packages that ship their tests; pinned by hash.

The wheels are an entry of the test cache, so only the first use needs a network.
"""

import subprocess
import sys
import zipfile
from pathlib import Path

from pipecatapp.sandbox import Sandbox
from pipecatapp.tools.code.packages import Packages
from tests import cache

LIST = Path(__file__).with_name("wheels.txt")
PYTEST = "pytest==9.0.0"


def wheels() -> Path:
    """Return the folder of the wheels."""
    return cache.entry("code-projects", [LIST], _download)


def _download(folder: Path) -> None:
    words = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    words += ["--disable-pip-version-check", "--only-binary=:all:", "--require-hashes"]
    subprocess.run([*words, "--dest", str(folder), "-r", str(LIST)], check=True)


def packages(root: Path) -> Packages:
    """Return environments below `root` that are made of these wheels."""
    return Packages(root, Sandbox(), wheels=wheels())


def unpack(name: str, folder: Path) -> None:
    """Unpack a package with its tests into a folder."""
    (wheel,) = wheels().glob(f"{name}-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
