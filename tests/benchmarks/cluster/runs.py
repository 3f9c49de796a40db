"""Runs of Ansible on hosts of the lab, timed: the whole of it and each task."""

import atexit
import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from hearth.lab.lab import Lab
from hearth.release.environment import build
from tests.clients.environments import ROOT, made
from tests.lab.playbooks import play

HERE: Final = Path(__file__).parent
HOSTS: Final = 3
CACHES: Final = ("llama_cpp_cache", "pipecatapp_cache")
"""Where the controller keeps what was packed: the engines, the base of the agent's image."""
SHOWN: Final = 12


@dataclass(frozen=True)
class Run:
    """Seconds of a run with the start of Ansible, of each task by name, and how many there were."""

    seconds: float
    each: Mapping[str, float]
    tasks: int
    changes: str

    def slowest(self) -> str:
        """The tasks that took longest, for the report."""
        found = sorted(self.each.items(), key=lambda item: item[1], reverse=True)[:SHOWN]
        return "; ".join(f"{name} {seconds:.1f} s" for name, seconds in found)


def timed(lab: Lab, playbook: str = "playbook.yaml", *, mitogen: bool = False) -> Run:
    """Run a playbook on all hosts of the lab."""
    with tempfile.TemporaryDirectory() as folder, _environment(Path(folder, "times"), mitogen):
        start = time.monotonic()
        ran = play(lab, playbook=playbook, nodes=HOSTS, variables=_caches())
        seconds = time.monotonic() - start
        told = json.loads(Path(folder, "times").read_text(encoding="utf-8"))
    return Run(seconds, told["seconds"], told["tasks"], ran.changes)


@cache
def cold() -> tuple[float, Run]:
    """Seconds to put the archives together, and the run on bare hosts while nothing was packed."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.monotonic()
        build(ROOT, Path(folder), arch="x86_64", python="3.11")
        packed = time.monotonic() - start
    return packed, timed(_fresh())


@cache
def cached() -> Run:
    """The same on other bare hosts, with what the first run has left on the controller."""
    cold()
    return timed(_fresh())


@cache
def converged() -> Lab:
    """Hosts that are as the playbook describes."""
    if not _lab().is_up():
        timed(_fresh())
    return _lab()


def strategies() -> Path:
    """Where Ansible finds mitogen's; its environment is made at the first use."""
    python = made("mitogen", HERE / "requirements.lock")
    return next(
        python.parents[1].glob("lib/python*/site-packages/ansible_mitogen/plugins/strategy")
    )


def _fresh() -> Lab:
    """Bare hosts that answer; the packages of Debian are in the lab's own proxy by then."""
    build(ROOT, ROOT / ".cache" / "releases", arch="x86_64", python="3.11")
    _lab().down()
    _lab().up(HOSTS)
    return _lab()


@cache
def _lab() -> Lab:
    lab = Lab("benchmark")
    atexit.register(lab.down)
    return lab


@cache
def _caches() -> dict[str, object]:
    folder = tempfile.TemporaryDirectory(prefix="hearth-benchmark-")
    atexit.register(folder.cleanup)
    return {name: str(Path(folder.name, name)) for name in CACHES}


@contextmanager
def _environment(times: Path, mitogen: bool) -> Iterator[None]:  # noqa: FBT001
    """What Ansible is told beside its configuration, while it runs."""
    told = {
        "ANSIBLE_CALLBACK_PLUGINS": str(HERE / "callbacks"),
        "ANSIBLE_CALLBACKS_ENABLED": "task_times",
        "TASK_TIMES_FILE": str(times),
    }
    if mitogen:
        told |= {
            "ANSIBLE_STRATEGY_PLUGINS": str(strategies()),
            "ANSIBLE_STRATEGY": "mitogen_linear",
            # It overrides what the inventory of the lab says of them.
            "ANSIBLE_HOST_KEY_CHECKING": "False",
        }
    before = dict(os.environ)
    os.environ.update(told)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
