"""A container image with the real Home Assistant, as a file that `docker load` reads."""

import hashlib
import json
import platform
import subprocess
import tarfile
from io import BytesIO
from pathlib import Path
from typing import Final

from tests import cache
from tests.binaries.home_assistant.root import ENVIRONMENT, SETTINGS, root

NAME: Final = "hearth-tests/home-assistant:2026.11.0"
ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
LEFT_OUT: Final = (
    "boot", "usr/include", "usr/lib/gcc", "usr/libexec", "usr/share/doc", "usr/share/locale",
    "usr/share/man", "var/cache", "var/lib/apt",
)  # fmt: skip
"""What compiles and documents: nothing in a container needs it."""
COMMAND: Final = (
    f"{ENVIRONMENT}/bin/python", "-m", "homeassistant", "--config", "/config", "--skip-pip",
)  # fmt: skip
"""The program that runs in the container."""


def archive() -> Path:
    """Return the file with the image `NAME`; make it if needed (a minute, 1.5 GB).

    Raises:
        BuildError: The root of Home Assistant cannot be made.
        CalledProcessError: tar fails.
    """
    tree = root()
    parts: list[cache.Part] = [tree.name, Path(__file__)]
    folder = cache.entry("home-assistant-image", parts, lambda folder: _make(tree, folder))
    return folder / "image.tar"


def _make(tree: Path, folder: Path) -> None:
    layer = folder / "layer.tar"
    excluded = [f"--exclude=./{path}" for path in LEFT_OUT]
    subprocess.run(
        ["tar", "--create", f"--file={layer}", f"--directory={tree}", *excluded, "."], check=True
    )
    with layer.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    config = {
        "architecture": ARCHITECTURES[platform.machine()],
        "os": "linux",
        "config": {"Env": [f"{name}={value}" for name, value in SETTINGS.items()]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        "history": [{"created_by": "Hearth's tests"}],
    }
    manifest = [{"Config": "config.json", "RepoTags": [NAME], "Layers": ["layer.tar"]}]
    with tarfile.open(folder / "image.tar", "w") as image:
        for name, content in {"config.json": config, "manifest.json": manifest}.items():
            text = json.dumps(content).encode()
            member = tarfile.TarInfo(name)
            member.size = len(text)
            image.addfile(member, BytesIO(text))
        image.add(layer, "layer.tar")
    layer.unlink()
