"""Bringing up three hosts of the lab: from bare Debian, with what is packed, and once more.

Each is a whole run of `playbook.yaml` as `bootstrap.sh -i` makes it, the start of Ansible included.
They need root and the programs of the lab; nothing else may run beside. Three hosts share the cores
and the disk of one machine: what each does by itself takes three times as long as at home.
"""

from importlib.metadata import version

from tests.benchmarks.cluster.runs import HERE, HOSTS, Run, cached, cold, converged, timed
from tests.benchmarks.entry import Benchmark, Pair

NOOP_PAIRS = 2
_noops: list[tuple[Run, Run]] = []
"""Runs that changed nothing, without and with mitogen."""


def measure_cold() -> list[Pair]:
    """Nothing on the controller, against what an earlier run has left there."""
    packed, run = cold()
    also = {"of it archives of our code": packed, "tasks": run.tasks}
    return [Pair(packed + run.seconds, cached().seconds, also=also)]


def measure_cached() -> list[Pair]:
    """The other way round."""
    packed, first = cold()
    return [Pair(cached().seconds, packed + first.seconds, also={"tasks": cached().tasks})]


def measure_noop() -> list[Pair]:
    """A converged cluster once more: by Ansible alone, and with mitogen."""
    _noops[:] = [(_noop(), _noop(mitogen=True)) for _ in range(NOOP_PAIRS)]
    return [
        Pair(
            stock.seconds, helped.seconds,
            also={"tasks": stock.tasks, "ms a task": stock.seconds / stock.tasks * 1000},
        )
        for stock, helped in _noops
    ]  # fmt: skip


def _noop(*, mitogen: bool = False) -> Run:
    run = timed(converged(), mitogen=mitogen)
    if run.changes:
        raise RuntimeError(f"The cluster was not converged:\n{run.changes}")
    return run


def _about_noops() -> list[str]:
    stock, helped = _noops[0]
    return [f"The slowest: {stock.slowest()}.", f"With mitogen: {helped.slowest()}."]


def ansible_version() -> str:
    return f"ansible-core {version('ansible-core')}"


def mitogen_version() -> str:
    lock = (HERE / "requirements.lock").read_text(encoding="utf-8")
    return lock.split()[0].removeprefix("mitogen==")


BENCHMARKS = (
    Benchmark(
        id="cluster.converge_cold",
        about=(
            f"{HOSTS} bare hosts of the lab to a cluster with experts, gateway and agent, while the"
            " controller has packed nothing. In it: the archives of our code, from the index of"
            " Python packages or its cache; Debian's packages, from the lab's proxy, which keeps"
            " them; the engines packed, the image built, models copied. Not in it: llama.cpp and"
            " whisper.cpp, which the controller has compiled before, as the lab's inventory says,"
            " and models, which it has fetched."
        ),
        unit="s",
        peer="with what an earlier run has packed",
        peer_version=ansible_version,
        goal=0.6,
        measure=measure_cold,
        lower_is_better=True,
        remarks=lambda: [f"The slowest: {cold()[1].slowest()}."],
    ),
    Benchmark(
        id="cluster.converge_cached",
        about=f"The same {HOSTS} hosts, bare again, with what that run has left on the controller.",
        unit="s",
        peer="without",
        peer_version=ansible_version,
        goal=1.0,
        measure=measure_cached,
        lower_is_better=True,
        target=360.0,
        remarks=lambda: [f"The slowest: {cached().slowest()}."],
    ),
    Benchmark(
        id="cluster.noop_run",
        about=(
            f"`playbook.yaml` on {HOSTS} hosts that are as it describes, by Ansible alone against"
            " Ansible with mitogen."
        ),
        unit="s",
        peer="mitogen",
        peer_version=mitogen_version,
        goal=0.4,
        measure=measure_noop,
        lower_is_better=True,
        target=60.0,
        remarks=_about_noops,
    ),
)
