"""Kills the agent service around events of a run that needs two attempts, and resumes it.

    python -m tests.integration.agent.code.victim FOLDER some|after|all [SCENARIO]

The scenarios are runs of `fix-bug` (`fix`), `coding-task` (`task`), `build-app` (`build`),
`coordinator` (`coordinate`) and `autonomy` (`autonomy`). The built program needs packages that do
not exist, has an error, gets the guidance of a person and a further feature. The coordinator's
list gets an item while a person reads the plan, one change is outside of the plan, and the result
needs a repair. The chain of autonomy has two workflows, each started after a question.

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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import structlog

from pipecatapp.workflow.ledger import writer
from tests.conftest import served
from tests.integration.agent import test_autonomy as autonomy
from tests.integration.agent.code import test_coding_task as coding
from tests.integration.agent.code import test_coordinator as coordinating
from tests.integration.agent.code.conftest import follow_until, git, repository
from tests.integration.agent.code.test_build_app import (
    BROKEN,
    LOUD,
    PLAN,
    README,
    REPAIR,
    asked_to,
)
from tests.integration.agent.code.test_fix_bug import COMMAND, PROGRAM, RIGHT, TESTS, WRONG
from tests.integration.agent.conftest import House, ScriptedGateway, follow
from tests.integration.workflow.victim import Deadly, in_child

SOME = (
    ("after", "node.running", "rounds[0]/attempts[0]/propose"),
    ("before", "node.done", "rounds[0]/attempts[0]/edit"),
    ("after", "node.done", "rounds[0]/attempts[0]"),
    ("after", "node.running", "rounds[0]/attempts[1]/after"),
    ("after", "node.running", "deliver"),
    ("before", "node.done", "deliver"),
)
"""Kills at which a request, a change, a command and the delivery are cut off."""
SOME_OF_TASK = (
    ("before", "node.done", "planning[0]/expanded"),
    ("after", "node.running", "attempts[0]/work"),
    ("after", "node.done", "attempts[1]/work/greeting/tries[0]/edit"),
    ("before", "node.done", "push"),
    ("before", "node.done", "kept"),
)
"""The same, and at a plan, in it, and at the storing of it."""
SOME_OF_BUILD = (
    ("after", "node.waiting", "planning[0]/agree"),
    ("before", "node.done", "features[0]/attempts[0]/environment"),
    ("after", "node.running", "features[0]/attempts[1]/mend"),
    ("before", "node.done", "features[0]/guide"),
    ("after", "node.done", "features[0]/guide"),
    ("after", "node.running", "features[2]/attempts[0]/trial"),
    ("before", "node.done", "deliver"),
)
"""The same, and at the questions to a person."""
SOME_OF_COORDINATOR = (
    ("before", "node.done", "planning[0]/agree"),
    ("before", "node.done", "rounds[1]/back"),
    ("after", "node.running", "rounds[2]/work/added_1/tries[0]/edit"),
    ("before", "node.done", "repair/repairs[0]/edit"),
    ("after", "node.waiting", "accept"),
)
"""At the questions to a person, a change outside of the plan, an added item, and the repair."""
SOME_OF_AUTONOMY = (
    ("after", "node.waiting", "autonomy/confirm"),
    ("after", "node.running", "autonomy/child"),
    ("before", "node.done", "autonomy/child"),
    ("after", "node.running", "1:work"),
    ("after", "node.done", "1:next/autonomy/confirm"),
    ("before", "node.done", "1:next/autonomy/child"),
)
"""While a workflow is confirmed, started and run, in each run of the chain."""
FILES = {"shop/__init__.py": "", "shop/prices.py": PROGRAM, "tests/test_prices.py": TESTS}


def fix_script(house: ScriptedGateway) -> None:
    """A model that is wrong first, and right once it has read why."""
    house.when("was tried and taken back").say(RIGHT)
    house.when("").say(WRONG)


NO_PACKAGE = """The standard library is enough.

requirements.txt
```
# None.
```
"""
GUIDANCE, FEATURE = "Spell it name.", "Greet loudly."


def script_build(model: ScriptedGateway) -> None:
    """Repair only what the prompt has: the error of pip, the guidance, the feature."""
    model.when(asked_to("You plan")).say(json.dumps(PLAN | {"packages": ["no-such-package"]}))
    model.when(asked_to("You write the program")).say(BROKEN)
    model.when(asked_to("Write the README")).say(README)
    model.when(f"asks for this now: {FEATURE}").say(LOUD)
    model.when(f"asks for this now: {GUIDANCE}").say(REPAIR)
    model.when("the requirement no-such-package").say(NO_PACKAGE)
    model.when("NameError").say("No idea.")


OUTSIDE = coding.WRONG + "\nwords/secret.py\n```\nKEY = 1\n```\n"
"""A farewell that fails the test, and a file that nobody has planned."""


def script_coordinator(model: ScriptedGateway) -> None:
    """One item is done, one touches a file that is not planned; then the test fails once."""
    model.when("This command fails").say(coding.RIGHT)
    model.when(f"Do this step: {coding.GREETING_GOAL}").say(coding.GREETING)
    model.when(f"Do this step: {coding.FAREWELL_GOAL}").say(OUTSIDE)
    model.when(f"Do this step: {coordinating.ADDED}").say(
        "Done.\n\nwords/notes.py\n```\n# Notes.\n```\n"
    )
    model.when("").say(json.dumps(coordinating.plan()))


def script_autonomy(model: ScriptedGateway) -> None:
    """Each workflow is right once its errors were reported."""
    model.when("It does not compile").say(autonomy.said(autonomy.VALID))
    model.when("The workflow before in this chain").say(autonomy.said(autonomy.SECOND))
    model.when("").say(autonomy.said(autonomy.WRONG))


@dataclass(frozen=True)
class Scenario:
    """A run that is killed, with the runs that it starts, one after the other."""

    workflow: str
    inputs: dict[str, Any]
    files: dict[str, str]
    """The repository; without files there is none."""
    script: Callable[[ScriptedGateway], None]
    branch: str
    """The beginning of the name of the branch that it delivers."""
    some: tuple[tuple[str, str, str], ...]
    answers: tuple[dict[str, str], ...] = ()
    """For each run, the answers of a person to the questions of its steps, in their order; without
    any, nobody is asked.
    """
    add: str = ""
    """What a person adds to the to-do list before the first answer."""


SCENARIOS = {
    "fix": Scenario("fix-bug", {"command": COMMAND}, FILES, fix_script, "run", SOME),
    "task": Scenario(
        "coding-task",
        {"text": coding.TEXT, "test": coding.TEST},
        {"words/__init__.py": "", "check.py": coding.CHECK},
        coding.script,
        "task",
        SOME_OF_TASK,
    ),
    "build": Scenario(
        "build-app",
        {"text": "Greet."},
        {"LICENSE": "None."},
        script_build,
        "run",
        SOME_OF_BUILD,
        answers=(
            {
                "planning[0]/agree": "yes",
                "features[0]/guide": GUIDANCE,
                "features[1]/verdict": FEATURE,
                "features[2]/verdict": "yes",
            },
        ),
    ),
    "coordinate": Scenario(
        "coordinator",
        {"text": "Greet and part.", "test": coding.TEST, "may_touch": ["words/notes.py"]},
        {"words/__init__.py": "", "check.py": coding.CHECK},
        script_coordinator,
        "task",
        SOME_OF_COORDINATOR,
        answers=({"planning[0]/agree": "yes", "rounds[0]/decide": "allow", "accept": "deliver"},),
        add=coordinating.ADDED,
    ),
    "autonomy": Scenario(
        "autonomy",
        {"text": autonomy.TEXT, "max_rounds": 2},
        {},
        script_autonomy,
        "",
        SOME_OF_AUTONOMY,
        answers=({"autonomy/confirm": "run"}, {"next/autonomy/confirm": "run"}, {}),
    ),
}


@contextmanager
def gateway(scenario: Scenario) -> Iterator[str]:
    """The address of the scripted model of a scenario.

    It is a process without its own state, because the killed processes are forks of this one, which
    must have no threads.
    """
    reading, writing = os.pipe()
    stopping, stop = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(stop)
        model = ScriptedGateway()
        scenario.script(model)
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


def work(folder: Path, address: str, scenario: Scenario) -> None:
    """Start the service, and a run unless there is one; keep how it and those after it ended."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    house = House(folder, ScriptedGateway(), address)
    repo = {"repo": str(folder / "shop")} if scenario.files else {}
    with house.running(), house.client() as client:
        known = client.get("/api/runs").json()["runs"]
        body = {
            "workflow": scenario.workflow,
            "inputs": repo | scenario.inputs,
            "interactive": bool(scenario.answers),
        }
        run = known[-1]["id"] if known else client.post("/api/runs", json=body).json()["run"]
        ended = []
        for answers in scenario.answers or ({},):
            answer_all(client, run, scenario, answers)
            ended.append({"run": run} | follow_until(client, run, "end"))
            run = (ended[-1]["outputs"] or {}).get("run")
        runs = client.get("/api/runs").json()["runs"]
    workflows = sorted(one["workflow"] for one in runs)
    (folder / "result").write_text(json.dumps({"ended": ended, "runs": workflows}))


def answer_all(
    client: httpx2.Client, run: str, scenario: Scenario, answers: dict[str, str]
) -> None:
    """Answer the questions of a run that are not answered yet, until there are no more."""
    for path, value in answers.items():
        with client.stream("GET", f"/api/runs/{run}/events") as events_of_run:
            follow(events_of_run, until="node.waiting", path=path)
        steps = client.get(f"/api/runs/{run}").json()["steps"]
        if any(one["path"] == path and one["status"] == "waiting" for one in steps):
            if scenario.add and not client.get(f"/api/runs/{run}/todo").json()["items"]:
                client.post(f"/api/runs/{run}/todo", json={"add": scenario.add})
            client.post(f"/api/runs/{run}/answer", json={"path": path, "value": value})


def child(folder: Path, address: str, scenario: Scenario, *, when: str = "", count: int = 0) -> int:
    """Run or resume in a forked process, until its kill if there is to be one."""
    connect = sqlite3.connect

    def task() -> None:
        if when:
            Deadly.when, Deadly.count = when, count
            writer.QUICK, writer.QUICK_ONES = (math.inf, 0) if count % 2 else (0.0, 1)
            sqlite3.connect = lambda *args, **named: connect(*args, **named, factory=Deadly)  # type: ignore[assignment]
        try:
            work(folder, address, scenario)
        finally:
            if error := sys.exception():  # This fork must not go on with its parent's program.
                traceback.print_exception(error)
                os._exit(1)

    return in_child(task)


def new(folder: Path, scenario: Scenario) -> Path:
    """A state directory with keys, and the repository of the scenario."""
    folder.mkdir()
    (folder / "key").write_text(House.key, encoding="utf-8")
    (folder / "service_key").write_text("sk-hearth-services", encoding="utf-8")
    if scenario.files:
        repository(folder / "shop", scenario.files)
    return folder


def events(folder: Path) -> list[tuple[str, str, str]]:
    """The events of the ledger, as type, path and effect.

    A path in a run that another has started begins with the number of the run: `1:work`.
    """
    connection = sqlite3.connect(folder / "ledger.db")
    try:
        rows = connection.execute(
            "SELECT run, type, path, data ->> '$.effect' FROM event ORDER BY seq"
        ).fetchall()
    except sqlite3.OperationalError:
        return []
    finally:
        connection.close()
    numbers = {run: number for number, run in enumerate(sorted({row[0] for row in rows}))}
    return [
        (kind, f"{numbers[run]}:{path}" if numbers[run] else path, effect)
        for run, kind, path, effect in rows
    ]


def outcome(folder: Path, scenario: Scenario) -> dict[str, Any]:
    """How the runs ended: status, events of the ledger, and the branches with their trees."""
    result = json.loads((folder / "result").read_text())
    ended = result["ended"]
    text = (ended[-1]["outputs"] or {}).get("text")
    for one in ended:  # The name of the branch has the id of the run.
        text = text and text.replace(one["run"], "RUN")
    facts = {
        "status": next((one["status"] for one in ended if one["status"] != "done"), "done"),
        "error": next((one["error"] for one in ended if one["error"]), None),
        "runs": result["runs"],
        "text": text,
        "events": events(folder),
    }
    if not scenario.files:
        return facts | {"expected": [], "branches": [], "trees": [], "commits": []}
    shop = folder / "shop"
    names = git(
        shop, "branch", "--list", f"{scenario.branch}/*", "--format=%(refname:short)"
    ).split()
    return facts | {
        "expected": [f"{scenario.branch}/{ended[0]['run']}"],
        "branches": names,
        "trees": [git(shop, "rev-parse", f"{name}^{{tree}}").strip() for name in names],
        "commits": [git(shop, "log", "--format=%B", f"main..{name}") for name in names],
    }


def case(root: Path, address: str, scenario: Scenario, when: str, count: int) -> dict[str, Any]:
    """One kill and its resume."""
    folder = new(root / f"{when}-{count}", scenario)
    signal = child(folder, address, scenario, when=when, count=count)
    at_kill = events(folder)
    resumed = child(folder, address, scenario)
    facts = {"when": when, "count": count, "signal": signal, "resumed": resumed}
    return facts | {"at_kill": at_kill} | outcome(folder, scenario)


def faults(whole: dict[str, Any], killed: dict[str, Any]) -> list[str]:
    """What is wrong with a run that was killed and resumed; nothing if it is as it should be."""
    running = Counter(path for kind, path, _ in killed["events"] if kind == "node.running")
    done = Counter(path for kind, path, _ in killed["events"] if kind == "node.done")
    twice = {path for path, times in running.items() if times > 1}
    found = {
        f"the signal is {killed['signal']}": killed["signal"] != 9,
        f"the run is {killed['status']}: {killed['error']}": killed["status"] != "done",
        f"the branches are {killed['branches']}": killed["branches"] != killed["expected"],
        f"the trees are {killed['trees']}": killed["trees"] != whole["trees"],
        f"the commits are {killed['commits']}": killed["commits"] != whole["commits"],
        f"the runs are {killed['runs']}": killed["runs"] != whole["runs"],
        f"the answer is {killed['text']}": killed["text"] != whole["text"],
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


def points(
    known: list[tuple[str, str, str]], which: str, some: tuple[tuple[str, str, str], ...]
) -> Iterator[tuple[str, int]]:
    """When to kill, and at which event."""
    for count, (kind, path, _) in enumerate(known, 1):
        for when in ("after", "before"):
            if which in ("all", when) or (which == "some" and (when, kind, path) in some):
                yield when, count


def main(root: Path, which: str, name: str = "fix") -> None:
    scenario = SCENARIOS[name]
    os.environ["PIP_NO_INDEX"] = "1"  # no network: pip finds no package at all
    with gateway(scenario) as address:
        whole = new(root / "whole", scenario)
        assert child(whole, address, scenario) == 0
        first = outcome(whole, scenario)
        sys.stdout.write(json.dumps(first) + "\n")
        for when, count in points(first["events"], which, scenario.some):
            found = case(root, address, scenario, when, count)
            sys.stdout.write(json.dumps(found) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
