"""Applying answers of models: how many give exactly the true file, and how many another one."""

import asyncio
import json
import subprocess
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context
from tests.benchmarks.code.answers import Case, cases
from tests.benchmarks.code.releases import changes
from tests.benchmarks.code.rendering import PATH, text
from tests.benchmarks.entry import Benchmark, Pair
from tests.clients.environments import python_of

COUNT = 3000
BATCHES = 5
EDIT = TOOLS["code.edit"]
Outcome = Literal["right", "wrong", "refused", "rightly refused"]
SEEN: dict[str, Counter[str]] = {}
"""Outcomes of the last measurement, by the kind of answer."""


def measure() -> list[Pair]:
    """Every answer on a file of its own, in five batches."""
    SEEN.clear()
    made = list(cases(changes(), COUNT))
    size = COUNT // BATCHES
    with tempfile.TemporaryDirectory() as name:
        batches = [made[start : start + size] for start in range(0, COUNT, size)]
        return [asyncio.run(_batch(batch, Path(name))) for batch in batches]


async def _batch(batch: Sequence[Case], folder: Path) -> Pair:
    ours: Counter[str] = Counter()
    git: Counter[str] = Counter()
    aider = aider_on([case for case in batch if _coder(case)])
    on_diffs: Counter[str] = Counter()
    for case in batch:
        outcome = await ours_on(case, folder)
        ours[outcome] += 1
        SEEN.setdefault(case.kind, Counter())[outcome] += 1
        if case.lines:
            on_diffs[outcome] += 1
            git[git_on(case, folder)] += 1
    return Pair(
        share(ours),
        share(aider),
        others={"git apply --recount (diffs only)": share(git)},
        also={
            "applied wrongly": ours["wrong"],
            "refused although certain": ours["refused"],
            "rightly refused": ours["rightly refused"],
            "share of the diffs": round(share(on_diffs), 4),
            "applied wrongly by aider": aider["wrong"],
            "applied wrongly by git apply": git["wrong"],
        },
    )


def share(outcomes: Counter[str]) -> float:
    """Answers that gave the true file, of those that were applied or should have been."""
    counted = outcomes["right"] + outcomes["wrong"] + outcomes["refused"]
    return outcomes["right"] / max(1, counted)


async def ours_on(case: Case, folder: Path) -> Outcome:
    """The outcome of `code.edit`."""
    file = folder / PATH
    file.write_bytes(case.file)
    result = await EDIT.check(Context(workspace=folder), {"answer": case.answer})
    return _outcome(case, file.read_bytes(), applied=bool(result["applied"]))


def git_on(case: Case, folder: Path) -> Outcome:
    """The outcome of `git apply --recount`."""
    file = folder / PATH
    file.write_bytes(case.file)
    words = ["git", "apply", "--recount", "--whitespace=nowarn", "-"]
    ended = subprocess.run(words, cwd=folder, input=text(case.lines).encode(), capture_output=True,
                           check=False)  # fmt: skip
    return _outcome(case, file.read_bytes(), applied=ended.returncode == 0)


def aider_on(batch: Sequence[Case]) -> Counter[str]:
    """The outcomes of aider's edit coders; it has none for definitions by name."""
    wanted = [
        {"coder": _coder(case), "file": case.file.decode(), "answer": case.answer} for case in batch
    ]
    words = [str(python_of("aider")), str(Path(__file__).with_name("aider_side.py"))]
    ended = subprocess.run(words, input=json.dumps(wanted), capture_output=True, text=True,
                           check=True)  # fmt: skip
    told = json.loads(ended.stdout.splitlines()[-1])
    return Counter(
        _outcome(case, (text or "").encode(), applied=text is not None)
        for case, text in zip(batch, told, strict=True)
    )


def _coder(case: Case) -> str:
    """Which of aider's coders reads the answer; empty where none does."""
    kind = case.kind.partition("_")[0]
    return {
        "git": "diff",
        "diff": "diff",
        "whole": "whole",
        "search": "search",
        "no": "search",
    }.get(kind, "")


def _outcome(case: Case, result: bytes, *, applied: bool) -> Outcome:
    if not applied:
        return "refused" if case.certain else "rightly refused"
    return "right" if result == case.expected else "wrong"


def remarks() -> list[str]:
    """What became of all answers, and of each kind."""
    total = sum(SEEN.values(), Counter[str]())
    return [_counts("All answers", total)] + [
        _counts(kind, seen) for kind, seen in sorted(SEEN.items())
    ]


def _counts(name: str, seen: Counter[str]) -> str:
    return f"{name}: {', '.join(f'{count} {outcome}' for outcome, count in sorted(seen.items()))}"


def version() -> str:
    """Of aider."""
    words = [str(python_of("aider")), "-c", "from importlib.metadata import version as v;"
             "print(v('aider-chat'))"]  # fmt: skip
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def git_version() -> dict[str, str]:
    """Of git."""
    told = subprocess.run(["git", "--version"], capture_output=True, text=True, check=True).stdout
    return {"git apply --recount (diffs only)": told.split()[-1]}


BENCHMARK = Benchmark(
    id="code.edits",
    about=(
        "3,000 answers: changes between consecutive releases of nine packages, as whole files,"
        " SEARCH/REPLACE blocks, diffs and definitions, most of them damaged (counts, indentation,"
        " stale or repeated lines, elision, CRLF). The share that gave exactly the true file, of"
        " the answers whose place is certain. The peers are measured on the forms that they take."
    ),
    unit="of 1",
    peer="aider's edit coders",
    peer_version=version,
    goal=None,
    target=0.97,
    measure=measure,
    other_versions=git_version,
    remarks=remarks,
)
