"""The sides of the benchmarks of the engine, each a process of its own with a folder of its own."""

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.benchmarks.entry import Pair
from tests.clients.environments import ROOT, made

PEERS: Mapping[str, str] = {
    "LangGraph": "langgraph_side",
    "DBOS": "dbos_side",
    "pydantic-graph": "pydantic_graph_side",
}
PACKAGES = {"LangGraph": "langgraph", "DBOS": "dbos", "pydantic-graph": "pydantic-graph"}
OURS = "Hearth"


def environment() -> Path:
    """The interpreter of the environment that holds the peers: the extra `bench`, locked."""
    lock = ROOT / "tests" / "benchmarks" / "engine" / "requirements.lock"
    return made("engine-peers", lock)


def versions() -> dict[str, str]:
    """Of the peers, as they are installed."""
    asked = "import importlib.metadata as m, sys; print(*map(m.version, sys.argv[1:]), sep='\\n')"
    ended = subprocess.run(
        [str(environment()), "-c", asked, *PACKAGES.values()],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return dict(zip(PACKAGES, ended.stdout.split(), strict=True))


def measure(
    work: str, peers: Sequence[str], *, pairs: int, scale: float = 1.0, fastest: int = 1
) -> list[Pair]:
    """So many turns of all sides, the first one changing from turn to turn.

    Of each side the fastest of `fastest` works in a row counts: what else the machine and its disk
    do only ever makes one slower. The first peer is the one we are judged by.
    """
    with running([OURS, *peers]) as sides:
        for side in sides.values():
            side.do(work)
        return [turn(sides, work, number, pairs, scale, fastest) for number in range(pairs)]


def turn(
    sides: "Mapping[str, Side]", work: str, number: int, pairs: int, scale: float, times: int
) -> Pair:
    names = list(sides)
    order = names[number % len(names) :] + names[: number % len(names)]
    best = {name: min(sides[name].do(work) for _ in range(times)) for name in order}
    took = {name: best[name][0] * scale for name in names}
    told = ", ".join(f"{name} {took[name]:.4g}" for name in names)
    sys.stderr.write(f"{work}, turn {number + 1} of {pairs}: {told}\n")
    busy = {f"seconds of processor of {name}": best[name][1] for name in names}
    others = {name: took[name] for name in names[2:]}
    return Pair(took[OURS], took[names[1]], others=others, also=busy)


class Side:
    """One process that does the work it is told."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def do(self, work: str) -> tuple[float, float]:
        """What was measured, and the seconds of processor time. Raises `RuntimeError` when the side
        has ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{work}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{self._process.args!r} ended in the middle of {work}")
        measured, busy = map(float, answer.split())
        return measured, busy


@contextlib.contextmanager
def running(names: Sequence[str]) -> Iterator[dict[str, Side]]:
    """The sides by name; on one disk, which is that of the checkout and never one in memory."""
    place = ROOT / ".cache" / "benchmarks"
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place) as root, ExitStack() as stack:
        yield {name: stack.enter_context(_side(name, Path(root, name))) for name in names}


@contextlib.contextmanager
def _side(name: str, folder: Path) -> Iterator[Side]:
    folder.mkdir()
    python = sys.executable if name == OURS else str(environment())
    module = f"tests.benchmarks.engine.{PEERS.get(name, 'ours')}"
    process = subprocess.Popen(
        [python, "-m", module, str(folder)],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield Side(process)
    finally:
        process.terminate()
        process.wait(30)
