"""A real Consul for the tests, compiled from its Go module: `python -m tests.binaries.consul`.

No package registry carries Consul as a program, but Go's module proxy carries its source. The
newest version that builds from published modules alone is pinned in `go.mod`. The program
lies in `.cache/consul/<version>/consul`; a second call finds it there and does nothing.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

from hearth.cluster.binaries import CONSUL_BUILDS

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


def build() -> Path:
    """The path of the compiled program; compiles it when it is not there (5 minutes of CPU).

    Raises `BuildError` when Go is missing or the build fails.
    """
    program = CONSUL_BUILDS / version() / "consul"
    if program.exists():
        return program
    go = shutil.which("go")
    if go is None:
        raise BuildError(f"There is no Go on PATH; Consul {version()} is compiled with it.")
    program.parent.mkdir(parents=True, exist_ok=True)
    unfinished = program.with_suffix(f".{os.getpid()}")
    stamp = f"-X {MODULE}/version.GitCommit=v{version()}"
    command = [
        go,
        "build",
        "-mod=readonly",
        "-buildvcs=false",
        "-trimpath",
        "-ldflags",
        f"-s -w {stamp}",
    ]
    ended = subprocess.run(
        [*command, "-o", str(unfinished), MODULE],
        cwd=PINNED, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if ended.returncode != 0:
        unfinished.unlink(missing_ok=True)
        raise BuildError(f"Consul {version()} did not compile:\n{ended.stderr}")
    unfinished.rename(program)
    return program
