"""How honest a campaign is: what it reports against the truth, beside GEPA with as many runs."""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from tests.benchmarks.entry import Benchmark, Pair
from tests.clients.environments import made

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[2]
CAMPAIGNS: Final = 300
BLOCKS: Final = 5
BUDGET: Final = 1500
"""Runs of one campaign; of ours this includes the gate."""
WORTH: Final = 0.1
"""A true gain that a gate should let pass."""

Row = dict[str, Any]


@cache
def rows() -> tuple[list[Row], list[Row]]:
    """All campaigns of both sides, by seed."""
    peer = made("gepa", HERE / "requirements.lock")
    return _side(Path(sys.executable), "ours"), _side(peer, "gepa_side")


def _side(python: Path, module: str) -> list[Row]:
    command = [python, "-m", f"tests.benchmarks.evolution.{module}", "0", CAMPAIGNS, BUDGET]
    ended = subprocess.run(
        [*map(str, command)], cwd=ROOT, capture_output=True, text=True, check=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    return [json.loads(line) for line in ended.stdout.splitlines()]


def measure() -> list[Pair]:
    """The mean of |reported - true| over shipped prompts, in blocks of 60 campaigns."""
    ours, peer = rows()
    size = CAMPAIGNS // BLOCKS
    blocks = (slice(start, start + size) for start in range(0, CAMPAIGNS, size))
    return [Pair(_error(ours[block]), _error(peer[block])) for block in blocks]


def _error(block: list[Row]) -> float:
    return fmean(abs(row["reported"] - row["true"]) for row in block if row["shipped"])


def remarks() -> list[str]:
    """Return the other figures of both sides."""
    ours, peer = rows()
    worth = [row for row in ours if row["best"] - row["first"] >= WORTH]
    promoted = sum(row["shipped"] for row in worth)
    return [
        f"Ours: {_text(ours)}. Of {len(worth)} campaigns whose best prompt is truly better by"
        f" {WORTH}, {promoted} are promoted.",
        f"GEPA: {_text(peer)}.",
    ]


def _text(side: list[Row]) -> str:
    shipped = [row for row in side if row["shipped"]]
    bad = sum(row["true"] < row["first"] - 1e-9 for row in shipped)
    bias = fmean(row["reported"] - row["true"] for row in shipped)
    gain = fmean(row["true"] - row["first"] for row in side)
    return (
        f"{len(shipped)} of {len(side)} campaigns ship a prompt, {bad} of them one that is worse"
        f" than the first; reported minus true {bias:+.3f}; true gain {gain:+.3f}"
    )


def version() -> str:
    """Of the peer."""
    lock = (HERE / "requirements.lock").read_text(encoding="utf-8")
    return lock.split()[0].removeprefix("gepa==")


BENCHMARK: Final = Benchmark(
    id="evolve.honesty",
    about=(
        f"The error of the reported pass rate of shipped prompts, in a world where the truth is"
        f" known: {CAMPAIGNS} campaigns of {BUDGET} noisy runs each, the gate included, against"
        " GEPA with the same mutations and as many runs."
    ),
    unit="pass rate",
    peer="GEPA",
    peer_version=version,
    goal=None,
    measure=measure,
    lower_is_better=True,
    remarks=remarks,
)
