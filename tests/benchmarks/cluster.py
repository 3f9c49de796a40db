"""Bringing up three hosts of the lab: from bare Debian, with and without caches, and once more.

Each is a whole run of `playbook.yaml` as `bootstrap.sh -i` makes it, the start of Ansible included.
They take an hour together, root, and the programs that the lab needs; nothing else may run beside.
"""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path

from hearth.lab.lab import Lab
from hearth.release.wheelhouse import build
from tests.benchmarks.entry import Benchmark, Pair
from tests.lab.playbooks import ROOT, Ran, play

HOSTS = 3
NOOP_PAIRS = 5
CACHES = ("llama_cpp_cache", "pipecatapp_cache")
"""What is compiled and packed. What is fetched is there in any case: the lab has no network."""


def measure_cold() -> list[Pair]:
    """All hosts against one: whatever is compiled, is compiled once."""
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as all_hosts:
        alone = _converged(Path(one), hosts=1)
        return [Pair(_converged(Path(all_hosts)), alone)]


def measure_cached() -> list[Pair]:
    """The same twice on bare hosts, the second time with what the first has left."""
    with tempfile.TemporaryDirectory() as folder:
        cold = _converged(Path(folder))
        return [Pair(_converged(Path(folder)), cold)]


def measure_noop() -> list[Pair]:
    """A converged cluster once more, against as many tasks that do nothing at all."""
    with _lab() as lab:
        _timed(lab)
        return [_noop_pair(lab) for _ in range(NOOP_PAIRS)]


def _noop_pair(lab: Lab) -> Pair:
    ran, seconds = _timed(lab)
    if any(ran.changed.values()):
        raise RuntimeError(f"The cluster was not converged:\n{ran.changes}")
    tasks = ran.output.count("\nTASK [")
    with tempfile.TemporaryDirectory() as folder:
        empty = Path(folder) / "empty.yaml"
        empty.write_text(_pings(tasks), encoding="utf-8")
        start = time.monotonic()
        play(lab, playbook=str(empty), nodes=HOSTS)
        peer = time.monotonic() - start
    return Pair(seconds, peer, also={"tasks": tasks, "ms a task": seconds / tasks * 1000})


def _pings(tasks: int) -> str:
    """A playbook that asks every host so many times whether it is there."""
    head = "- hosts: cluster\n  gather_facts: true\n  tasks:\n"
    return head + "".join(
        f"    - {{name: Ping {n}, ansible.builtin.ping: }}\n" for n in range(tasks)
    )


def _converged(caches: Path, *, hosts: int = HOSTS) -> float:
    """Seconds from bare hosts to a cluster that answers."""
    with _lab(hosts) as lab:
        variables: dict[str, object] = {name: str(caches / name) for name in CACHES}
        return _timed(lab, hosts, variables)[1]


def _timed(
    lab: Lab, hosts: int = HOSTS, variables: dict[str, object] | None = None
) -> tuple[Ran, float]:
    start = time.monotonic()
    ran = play(lab, nodes=hosts, variables=variables)
    return ran, time.monotonic() - start


@contextmanager
def _lab(hosts: int = HOSTS) -> Iterator[Lab]:
    """Bare hosts that answer; the packages of Debian are in the lab's own proxy by then."""
    build(ROOT, ROOT / ".cache" / "releases", arch="x86_64", python="3.11")
    lab = Lab("benchmark")
    try:
        lab.up(hosts)
        yield lab
    finally:
        lab.down()


@cache
def ansible_version() -> str:
    return f"ansible-core {version('ansible-core')}"


BENCHMARKS = (
    Benchmark(
        id="cluster.converge_cold",
        about=(
            f"{HOSTS} bare hosts of the lab to a cluster with experts, gateway and agent; llama.cpp"
            " is compiled and the image is packed. Against one bare host."
        ),
        unit="s",
        peer="one host",
        peer_version=ansible_version,
        goal=0.6,
        measure=measure_cold,
        lower_is_better=True,
    ),
    Benchmark(
        id="cluster.converge_cached",
        about=f"The same {HOSTS} hosts with what an earlier run has compiled and packed.",
        unit="s",
        peer="without caches",
        peer_version=ansible_version,
        goal=2.0,
        measure=measure_cached,
        lower_is_better=True,
        target=360.0,
    ),
    Benchmark(
        id="cluster.noop_run",
        about=(
            f"`playbook.yaml` on {HOSTS} hosts that are as it describes, against as many tasks that"
            " only ping."
        ),
        unit="s",
        peer="ansible.builtin.ping",
        peer_version=ansible_version,
        goal=0.5,
        measure=measure_noop,
        lower_is_better=True,
        target=60.0,
    ),
)
