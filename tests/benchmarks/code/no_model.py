"""Repairing HumanEval's mutants without a model: code.localise, then code.fix."""

import asyncio
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, Final

from pipecatapp.sandbox import Sandbox
from pipecatapp.tools import TOOLS
from pipecatapp.tools.code.packages import Packages
from pipecatapp.workflow import Context, ToolFailed
from tests.benchmarks.code.humaneval import COUNT, TESTS, Broken, broken
from tests.benchmarks.entry import Benchmark, Pair
from tests.support.projects import wheels
from tests.support.projects.files import write_files

BATCHES: Final = max(1, min(5, COUNT // 20))
ATTEMPTS: Final = 60
SECONDS: Final = 10
LOCALISE, FIX = TOOLS["code.localise"], TOOLS["code.fix"]
SEEN: Counter[str] = Counter()
"""Mutants, repaired ones, those repaired to the original text, and tests of changes."""


def measure() -> list[Pair]:
    """Repair each mutant with and without changes of logic."""
    SEEN.clear()
    with tempfile.TemporaryDirectory() as folder:
        results = asyncio.run(_results(Path(folder)))
    size = max(1, len(results) // BATCHES)
    batches = [results[at : at + size] for at in range(0, size * BATCHES, size)]
    return [
        Pair(
            sum(ours for ours, _ in batch) / len(batch),
            max(1, sum(peer for _, peer in batch)) / len(batch),
        )
        for batch in batches
        if batch
    ]


async def _results(root: Path) -> list[tuple[bool, bool]]:
    packages = wheels.packages(root / "packages")
    environment = (await packages.install([wheels.PYTEST])).id
    services: dict[type, object] = {Sandbox: Sandbox(), Packages: packages}
    checking = root / "checking"
    checking.mkdir()
    results = []
    for number, one in enumerate(broken(checking)):
        folder = root / str(number)
        context = Context(workspace=folder, services=services)
        write_files(folder, one.files)
        results.append(
            (await _repaired(context, one, environment), await _mechanical(context, one))
        )
    return results


async def _repaired(context: Context, one: Broken, environment: str) -> bool:
    """Whether the tests pass after a repair."""
    SEEN["mutants"] += 1
    given = {"command": "pytest -q", "packages": environment, "seconds": SECONDS}
    try:
        suspects = (await LOCALISE.check(context, given))["symbols"]
    except ToolFailed:
        return False
    places = [{"file": each["file"], "line": each["line"]} for each in suspects]
    result = await _fix(context, suspects=places)
    if result is None or result["failing"]:
        return False
    assert context.workspace is not None
    SEEN["repaired"] += 1
    SEEN["tests"] += len(result["changes"])
    text = (context.workspace / one.mutant.path).read_text(encoding="utf-8")
    SEEN["as the original"] += _same(text, one.problem.program)
    return True


async def _mechanical(context: Context, one: Broken) -> bool:
    """Whether they pass after mechanical repairs alone."""
    assert context.workspace is not None
    write_files(context.workspace, one.files)
    result = await _fix(context)
    return result is not None and not result["failing"]


async def _fix(context: Context, **more: Any) -> dict[str, Any] | None:
    """Repair with the tests as a plain program, which starts faster than pytest."""
    given = {"command": f"python3 {TESTS}", "seconds": SECONDS, "attempts": ATTEMPTS}
    try:
        return await FIX.check(context, {**given, **more})
    except ToolFailed:
        return None


def _same(one: str, other: str) -> bool:
    """Whether two programs are the same, without regard to brackets and spaces."""
    left, right = ("".join(char for char in text if char not in " ()\n") for text in (one, other))
    return left == right


def remarks() -> list[str]:
    """Say how many repairs are those of the original program."""
    repaired = max(1, SEEN["repaired"])
    return [
        f"{SEEN['mutants']} mutants, {SEEN['repaired']} repaired, {SEEN['as the original']} of them"
        f" to the original text; {SEEN['tests'] / repaired:.1f} changes tested for each.",
        "The mutants are of the kinds that code.fix undoes, so real bugs are repaired less often.",
    ]


BENCHMARK = Benchmark(
    id="code.no_model",
    about=(
        f"{COUNT} mutants of HumanEval's solutions that their tests detect (seed 565), repaired"
        " without a model: the share whose tests pass after code.localise and code.fix with the"
        " suspects. The peer is code.fix for mechanical mistakes alone."
    ),
    unit="of 1",
    peer="mechanical repairs",
    peer_version=lambda: "code.fix without suspects",
    goal=None,
    target=0.25,
    measure=measure,
    remarks=remarks,
)
