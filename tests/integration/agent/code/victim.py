"""Kills the agent service around events of a `fix-bug` run that needs two attempts, and resumes it.

    python -m tests.integration.agent.code.victim FOLDER some|all

First one run is left alone. Then a forked service is killed (SIGKILL) right after the commit that
holds an event, and another right before it, when the event has happened and is not written; `all`
does so for every event. A further process is started on the same state and ends the run. Each case
gives one JSON line.
"""

import json
import math
import os
import sqlite3
import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import structlog

from pipecatapp.workflow.ledger import writer
from tests.conftest import served
from tests.integration.agent.code.conftest import follow_until, git, repository
from tests.integration.agent.code.test_fix_bug import COMMAND, PROGRAM, RIGHT, TESTS, WRONG
from tests.integration.agent.conftest import House, ScriptedGateway
from tests.integration.workflow.victim import Deadly, events, in_child

SOME = (
    ("after", "node.running", "rounds[0]/attempts[0]/propose"),
    ("before", "node.done", "rounds[0]/attempts[0]/edit"),
    ("after", "node.done", "rounds[0]/attempts[0]"),
    ("after", "node.running", "rounds[0]/attempts[1]/after"),
    ("after", "node.running", "deliver"),
    ("before", "node.done", "deliver"),
)
"""Kills at which a request, a change, a command and the delivery are cut off."""
FILES = {"shop/__init__.py": "", "shop/prices.py": PROGRAM, "tests/test_prices.py": TESTS}


@contextmanager
def gateway() -> Iterator[str]:
    """The address of a model that is wrong first, and right once it has read why.

    It is a process without its own state, because the killed processes are forks of this one, which
    must have no threads.
    """
    reading, writing = os.pipe()
    stopping, stop = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(stop)
        model = ScriptedGateway()
        model.when("was tried and taken back").say(RIGHT)
        model.when("").say(WRONG)
        with served(model.app) as address:
            os.write(writing, address.encode())
            os.read(stopping, 1)  # until the parent closes its end
        os._exit(0)
    os.close(stopping)
    try:
        yield os.read(reading, 200).decode()
    finally:
        os.close(stop)
        os.waitpid(child, 0)


def work(folder: Path, address: str) -> None:
    """Start the service, and a run unless there is one; keep how the run ended."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    house = House(folder, ScriptedGateway(), address)
    inputs = {"repo": str(folder / "shop"), "command": COMMAND}
    with house.running(), house.client() as client:
        known = client.get("/api/runs").json()["runs"]
        body = {"workflow": "fix-bug", "inputs": inputs, "interactive": False}
        run = known[0]["id"] if known else client.post("/api/runs", json=body).json()["run"]
        view = follow_until(client, run, "end")
    (folder / "result").write_text(json.dumps({"run": run} | view))


def child(folder: Path, address: str, *, when: str = "", count: int = 0) -> int:
    """Run or resume in a forked process, until its kill if there is to be one."""
    connect = sqlite3.connect

    def task() -> None:
        if when:
            Deadly.when, Deadly.count = when, count
            writer.QUICK, writer.QUICK_ONES = (math.inf, 0) if count % 2 else (0.0, 1)
            sqlite3.connect = lambda *args, **named: connect(*args, **named, factory=Deadly)  # type: ignore[assignment]
        try:
            work(folder, address)
        finally:
            if error := sys.exception():  # This fork must not go on with its parent's program.
                traceback.print_exception(error)
                os._exit(1)

    return in_child(task)


def new(folder: Path) -> Path:
    """A state directory with keys, and the repository with the bug."""
    folder.mkdir()
    (folder / "key").write_text(House.key, encoding="utf-8")
    (folder / "service_key").write_text("sk-hearth-services", encoding="utf-8")
    repository(folder / "shop", FILES)
    return folder


def outcome(folder: Path) -> dict[str, Any]:
    """How the run ended: status, events of the ledger, and the branches with their trees."""
    view = json.loads((folder / "result").read_text())
    shop = folder / "shop"
    names = git(shop, "branch", "--list", "run/*", "--format=%(refname:short)").split()
    return {
        "status": view["status"],
        "error": view.get("error"),
        "run": view["run"],
        "events": events(folder),
        "branches": names,
        "trees": [git(shop, "rev-parse", f"{name}^{{tree}}").strip() for name in names],
        "commits": [git(shop, "log", "--format=%B", f"main..{name}") for name in names],
    }


def case(root: Path, address: str, when: str, count: int) -> dict[str, Any]:
    """One kill and its resume."""
    folder = new(root / f"{when}-{count}")
    signal = child(folder, address, when=when, count=count)
    at_kill = events(folder)
    resumed = child(folder, address)
    facts = {"when": when, "count": count, "signal": signal, "resumed": resumed}
    return facts | {"at_kill": at_kill} | outcome(folder)


def faults(whole: dict[str, Any], killed: dict[str, Any]) -> list[str]:
    """What is wrong with a run that was killed and resumed; nothing if it is as it should be."""
    running = Counter(path for kind, path, _ in killed["events"] if kind == "node.running")
    done = Counter(path for kind, path, _ in killed["events"] if kind == "node.done")
    twice = {path for path, times in running.items() if times > 1}
    found = {
        f"the signal is {killed['signal']}": killed["signal"] != 9,
        f"the run is {killed['status']}: {killed['error']}": killed["status"] != "done",
        f"the branches are {killed['branches']}": killed["branches"] != [f"run/{killed['run']}"],
        f"the trees are {killed['trees']}": killed["trees"] != whole["trees"],
        f"the commits are {killed['commits']}": killed["commits"] != whole["commits"],
        f"{twice - cut_off(killed)} ran twice": twice - cut_off(killed),
        f"{done} ended twice": max(done.values()) > 1,
        "a step is missing": done.keys()
        != {one for kind, one, _ in whole["events"] if kind == "node.done"},
    }
    return [name for name, wrong in found.items() if wrong]


def cut_off(killed: dict[str, Any]) -> set[str]:
    """The steps that had begun and not ended when the service was killed."""
    at_kill = killed["at_kill"]
    begun = {path for kind, path, _ in at_kill if kind == "node.running"}
    return begun - {path for kind, path, _ in at_kill if kind == "node.done"}


def points(known: list[tuple[str, str, str]], which: str) -> Iterator[tuple[str, int]]:
    """When to kill, and at which event."""
    for count, (kind, path, _) in enumerate(known, 1):
        for when in ("after", "before"):
            if which == "all" or (when, kind, path) in SOME:
                yield when, count


def main(root: Path, which: str) -> None:
    with gateway() as address:
        whole = new(root / "whole")
        assert child(whole, address) == 0
        first = outcome(whole)
        sys.stdout.write(json.dumps(first) + "\n")
        for when, count in points(first["events"], which):
            found = case(root, address, when, count)
            sys.stdout.write(json.dumps(found) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
