"""Finding the faulty function: how often it is the first that code.localise names."""

import asyncio
import itertools
import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from pipecatapp.sandbox import Sandbox
from pipecatapp.tools import TOOLS
from pipecatapp.tools.code.packages import Packages
from pipecatapp.workflow import Context, ToolFailed
from tests.benchmarks.code.mutants import Mutant, mutants
from tests.benchmarks.code.projects import Target, targets, unpack
from tests.benchmarks.entry import Benchmark, Pair
from tests.support.projects import wheels

COUNT = int(os.environ.get("BENCH_SAMPLE", "300"))
BATCHES = max(1, min(5, COUNT // 20))
SEED = 2021
SECONDS = 20
"""Time of one run of tests. A module whose tests take a quarter of it is not used."""
LANES = 2
"""Mutants that are tested at the same time."""
LOCALISE, TEST = TOOLS["code.localise"], TOOLS["code.test"]
SEEN: dict[str, Counter[int]] = {}
"""How often the faulty function was at each place, counted from 1; 0 where it was not named."""


@dataclass(frozen=True)
class Finding:
    """The place of the faulty function among those that were named, and in the traceback."""

    package: str
    place: int
    by_traceback: bool


class Lane:
    """A copy of all packages, in which one mutant after the other is tested."""

    def __init__(self, root: Path, packages: Packages, environment: str) -> None:
        self._root, self._environment = root, environment
        self._services: dict[type, object] = {Sandbox: Sandbox(), Packages: packages}
        self._usable: dict[Target, bool] = {}
        unpack(root)

    async def usable(self, target: Target) -> bool:
        """Whether the tests of a module pass, and quickly."""
        if target not in self._usable:
            try:
                result = await TEST.check(*self._call(target))
            except ToolFailed:
                result = {"ok": False}
            quick = result["ok"] and result["seconds"] < SECONDS / 4
            self._usable[target] = quick and result["passed"] > 1
        return self._usable[target]

    async def find(self, target: Target, mutant: Mutant) -> Finding | None:
        """Return the finding; None for a mutant that does not parse or that no test detects."""
        file = self._root / target.package / target.path
        source = file.read_text(encoding="utf-8")
        text = mutant.applied(source)
        if text is None or not await self.usable(target):
            return None
        file.write_text(text, encoding="utf-8")
        try:
            context, given = self._call(target)
            tested = await TEST.check(context, given)
            failing = [one["id"] for one in tested["tests"]
                       if one["outcome"] in ("failed", "error")]  # fmt: skip
            if not failing:
                return None
            found = await LOCALISE.check(context, {**given, "failing": failing, "top": 50})
            symbols = [(one["file"], one["symbol"]) for one in found["symbols"]]
        except ToolFailed:
            symbols = []
        finally:
            file.write_text(source, encoding="utf-8")
        wanted = (target.path, mutant.symbol)
        place = symbols.index(wanted) + 1 if wanted in symbols else 0
        return Finding(target.package, place, _by_traceback(tested, target, mutant))

    def _call(self, target: Target) -> tuple[Context, dict[str, Any]]:
        workspace = self._root / target.package
        given = {"command": target.command, "packages": self._environment, "seconds": SECONDS}
        return Context(workspace=workspace, services=self._services), given


def _by_traceback(tested: dict[str, Any], target: Target, mutant: Mutant) -> bool:
    """Whether the place of the first error is in the faulty function."""
    error = tested["error"] or {}
    file = str(error.get("file") or "").removeprefix("/work/")
    return file == target.path and error.get("symbol") == mutant.symbol.rpartition(".")[2]


def measure() -> list[Pair]:
    """Take mutants of the three packages in turn until enough of them are detected."""
    SEEN.clear()
    with tempfile.TemporaryDirectory() as name:
        findings = asyncio.run(_findings(Path(name)))
    size = COUNT // BATCHES
    return [_pair(findings[start : start + size]) for start in range(0, COUNT, size)]


async def _findings(root: Path) -> list[Finding]:
    packages = wheels.packages(root / "packages")
    environment = (await packages.install([wheels.PYTEST])).id
    lanes = [Lane(root / str(number), packages, environment) for number in range(LANES)]
    found: list[Finding] = []
    candidates = _candidates(root / "0")
    while some := list(itertools.islice(candidates, LANES)):
        findings = await asyncio.gather(
            *(lane.find(*one) for lane, one in zip(lanes, some, strict=False))
        )
        found += [one for one in findings if one is not None]
        if len(found) >= COUNT:
            break
    for finding in found[:COUNT]:
        SEEN.setdefault(finding.package, Counter())[finding.place] += 1
    return found[:COUNT]


def _candidates(root: Path) -> Iterator[tuple[Target, Mutant]]:
    """Yield mutants in an order that the seed decides, one of each package in turn."""
    random = Random(SEED)
    pools: list[list[tuple[Target, Mutant]]] = []
    for package, modules in targets(root, random).items():
        pool = [
            (target, mutant)
            for target in modules
            for mutant in mutants(
                target.path, (root / package / target.path).read_text(encoding="utf-8")
            )
        ]
        random.shuffle(pool)
        pools.append(pool)
    for one in itertools.zip_longest(*pools):
        yield from (candidate for candidate in one if candidate is not None)


def _pair(findings: list[Finding]) -> Pair:
    count = len(findings)
    return Pair(
        sum(one.place == 1 for one in findings) / count,
        max(1, sum(one.by_traceback for one in findings)) / count,
        also={
            "in the first three": sum(1 <= one.place <= 3 for one in findings) / count,
            "tokens": 0,
        },
    )


def remarks() -> list[str]:
    """Tell the places for each package."""
    return [
        f"{package}: {seen.total()} mutants, first {seen[1]}, second or third {seen[2] + seen[3]},"
        f" later {seen.total() - seen[0] - seen[1] - seen[2] - seen[3]}, not named {seen[0]}"
        for package, seen in sorted(SEEN.items())
    ]


BENCHMARK = Benchmark(
    id="code.localise",
    about=(
        f"{COUNT} mutants of boltons, networkx and toolz that the tests of their module detect (a"
        " comparison, an operator, a number, a condition or two arguments exchanged; seed 2021)."
        " The share whose function is the first that is named. Goal: 0.6, and 0.95 in the first"
        " three, without a model. The peer is the place that the first failing test names."
    ),
    unit="of 1",
    peer="the traceback",
    peer_version=lambda: "of pytest 9.0.0",
    goal=None,
    target=0.6,
    measure=measure,
    remarks=remarks,
)
