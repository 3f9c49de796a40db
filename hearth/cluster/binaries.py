"""Where the programs of the cluster are on this machine."""

import shutil
from pathlib import Path
from typing import Final, Literal

from hearth.settings import Settings

Program = Literal["consul", "nomad"]

CONSUL_BUILDS: Final = Path(__file__).parents[2] / ".cache" / "consul"
"""Where `python -m tests.binaries.consul` puts what it compiled: `<version>/consul`."""


def find(name: Program) -> Path | None:
    """The program that a setting names, else the one on PATH, else (Consul) the compiled one.

    A setting that names no file is taken at its word: what runs it then says so.
    """
    settings = Settings.load()
    named = {"consul": settings.consul_binary, "nomad": settings.nomad_binary}[name]
    if named is not None:
        return named
    on_path = shutil.which(name)
    if on_path is not None:
        return Path(on_path)
    return _compiled() if name == "consul" else None


def _compiled() -> Path | None:
    return max(CONSUL_BUILDS.glob("*/consul"), key=_version, default=None)


def _version(program: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in program.parent.name.split("."))
