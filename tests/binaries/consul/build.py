"""A real Consul for the tests, compiled from its Go module: `python -m tests.binaries.consul`.

No package registry carries Consul as a program, but Go's module proxy carries its source. The
newest version that builds from published modules alone is pinned in `go.mod`. The program is an
entry of the test cache, and `.cache/consul/<version>` of the checkout links to it.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

from hearth.cluster.binaries import CONSUL_BUILDS
from tests import cache

MODULE = "github.com/hashicorp/consul"
PINNED = Path(__file__).parent
OLDEST_GO = "1.24"


class BuildError(Exception):
    """Install Go 1.24 or newer and see that it reaches a module proxy, or name a Consul of yours.

    A Consul of yours is named by `HEARTH_CONSUL_BINARY`.
    """


def version() -> str:
    """The version that `go.mod` pins, without its `v`: `1.12.9`."""
    text = (PINNED / "go.mod").read_text(encoding="utf-8")
    found = re.search(rf"{re.escape(MODULE)} v(\S+)", text)
    assert found, f"{PINNED}/go.mod requires no {MODULE}"
    return found[1]


def build(architecture: str = "") -> Path:
    """Return the path of the compiled program; compile it if needed (5 minutes of CPU).

    Args:
        architecture: Go's name of another architecture, such as `arm64`; the cache alone has its
            program.

    Raises:
        BuildError: Go is missing or the build fails.
    """
    go = shutil.which("go")
    if go is None:
        raise BuildError(f"There is no Go on PATH; Consul {version()} is compiled with it.")
    compiler = subprocess.run([go, "version"], capture_output=True, check=True).stdout
    sources = [PINNED / name for name in ("go.mod", "go.sum", "build.py")]
    name = f"consul-{architecture}" if architecture else "consul"
    environment = {"GOARCH": architecture} if architecture else {}
    folder = cache.entry(name, [*sources, compiler], lambda place: _compile(go, place, environment))
    if architecture:
        return folder / "consul"
    return cache.link(CONSUL_BUILDS / version(), folder) / "consul"


def _compile(go: str, folder: Path, environment: dict[str, str]) -> None:
    stamp = f"-X {MODULE}/version.GitCommit=v{version()}"
    options = ["-mod=readonly", "-buildvcs=false", "-trimpath", "-ldflags", f"-s -w {stamp}"]
    ended = subprocess.run(
        [go, "build", *options, "-o", str(folder / "consul"), MODULE],
        cwd=PINNED, env=os.environ | environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if ended.returncode != 0:
        raise BuildError(f"Consul {version()} did not compile:\n{ended.stderr}")
