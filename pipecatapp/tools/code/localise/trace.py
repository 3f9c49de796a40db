"""Running tests under the tracer in the sandbox."""

import json
import shutil
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hearth.service.ephemeral import scratch
from pipecatapp.sandbox import Mount, Outcome
from pipecatapp.sandbox.bubblewrap import WORK
from pipecatapp.sandbox.leftovers import guard
from pipecatapp.sandbox.tree import remove
from pipecatapp.tools.code.program import execute
from pipecatapp.tools.code.testing.command import REPORT
from pipecatapp.tools.code.testing.suite import Suite, taken
from pipecatapp.workflow import Context

TRACE: Final = ".hearth-trace.jsonl"
"""The traces in the workspace, from which they are removed afterwards."""
TRACER: Final = "/hearth"
"""Where the sandbox has the tracer."""
SHARE: Final = 10
"""One test may take this part of the time of all."""
CANDIDATES: Final = 3
"""How many times the wanted number of passing tests is chosen, because some may not pass."""

Place = tuple[str, int]
"""A file from the workspace and a line."""


@dataclass(frozen=True)
class Trace:
    """The lines that one test executed."""

    test: str
    passed: bool
    lines: frozenset[Place]
    frames: tuple[Place, ...]
    """The lines of its traceback, the innermost call last."""


async def traces(
    ctx: Context, suite: Suite, failing: Collection[str], passing: int
) -> tuple[list[Trace], Outcome]:
    """Run failing tests and up to `passing` tests near them that pass."""
    settings = {
        "root": WORK,
        "output": f"{WORK}/{TRACE}",
        "failing": list(failing),
        "passing": passing,
        "candidates": passing * CANDIDATES,
        "seconds": suite.limits.seconds / SHARE,
    }
    errand = suite.errand(options=["-phearth_tracer"], path=TRACER)
    guard.watch()
    taken(suite.root, TRACE)
    with scratch(f"{guard.mark}-trace", remove) as folder:
        (folder / "trace.json").write_text(json.dumps(settings), encoding="utf-8")
        shutil.copyfile(Path(__file__).with_name("tracer.py"), folder / "hearth_tracer.py")
        mounts = [Mount(folder, TRACER)]
        ended = await execute(ctx, errand, suite.root, suite.packages, mounts=mounts)
    taken(suite.root, REPORT)
    return list(_read(taken(suite.root, TRACE) or b"")), ended


def _read(data: bytes) -> Iterator[Trace]:
    """Yield the traces of a file that a hostile test may have written, too."""
    for line in data.splitlines():
        try:
            yield _trace(json.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError):
            continue


def _trace(told: dict[str, Any]) -> Trace:
    lines = {(str(path), int(line)) for path, lines in told["lines"].items() for line in lines}
    return Trace(
        test=str(told["test"]),
        passed=told["outcome"] == "passed",
        lines=frozenset(lines),
        frames=tuple((str(path), int(line)) for path, line in told["frames"]),
    )
