"""The lanes of continuous integration and their seconds: `docs/reference/testing.md`.

`python -m tests.lanes FOLDER cold|warm SECONDS` reads `LANE.xml` and `LANE.seconds` of each lane in
`FOLDER`, writes the page, and prints the closing lines: a line per lane, the total, and each test
that passed only in its second run, with its first error.
"""

import datetime
import json
import os
import sys
from pathlib import Path
from typing import TypedDict
from xml.etree import ElementTree

from tests.retry import RETRIED

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
TABLE = REFERENCE / "testing.json"
PAGE = REFERENCE / "testing.md"
LIMITS = {"cold": 50, "warm": 30}
"""Minutes on two cores."""
ABOUT = {
    "check": "rules and unit tests: no process, no connection (`make check`)",
    "pages": "the page in a browser; after the lane `check`",
    "lab": "playbooks on hosts that are booted for it",
    "most": "all other parts together",
    "agent": "agent and engine of workflows",
    "gateway": "gateway and speech",
    "tools": "tools of workflows, and Hearth as its user runs it",
    "talking": "voice in real time, with a higher priority",
    "jobs": "jobs on a real Nomad, and dashboards",
}
HEAD = """# How long the tests take

Written by `.ci/run` at the end of a run that passed; do not edit. *cold* begins with a fresh clone
and an empty cache: it compiles the engines and Consul and creates all hosts again. *warm* finds
these in the [test cache](settings.md). `make test-extended` runs the tests that are in no lane;
`tests/extended.json` records their results. Each run also includes one of them, in rotation. Three
lanes run at a time.
"""


class Lane(TypedDict):
    """One lane of one run."""

    tests: int
    seconds: int


class Run(TypedDict):
    """One run of `.ci/run` on a cold or a warm cache."""

    date: str
    cores: int
    seconds: int
    lanes: dict[str, Lane]


def measured(folder: Path, seconds: int) -> Run:
    """Return the lanes that a run has left in a folder."""
    lanes: dict[str, Lane] = {}
    for file in sorted(folder.glob("*.seconds")):
        suites = ElementTree.parse(file.with_suffix(".xml")).iter("testsuite")
        tests = sum(int(suite.get("tests", 0)) for suite in suites)
        lanes[file.stem] = {"tests": tests, "seconds": int(file.read_text(encoding="utf-8"))}
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return {"date": today, "cores": os.cpu_count() or 1, "seconds": seconds, "lanes": lanes}


def comparable(runs: dict[str, Run]) -> dict[str, Run]:
    """Return the runs that had today's lanes; the page describes no others."""
    return {kind: run for kind, run in runs.items() if run["lanes"].keys() == ABOUT.keys()}


def page(runs: dict[str, Run]) -> str:
    """Return the page: a table for each kind of run."""
    parts = [HEAD]
    for kind, run in sorted(runs.items()):
        minutes = run["seconds"] / 60
        parts.append(
            f"## {kind.capitalize()}\n\n{run['date']}, {run['cores']} cores: {minutes:.0f} minutes"
            f" (limit: {LIMITS[kind]}).\n\n"
            "| lane | what it runs | tests | seconds |\n| --- | --- | --- | --- |\n"
            + "".join(
                f"| `{name}` | {ABOUT[name]} | {lane['tests']} | {lane['seconds']} |\n"
                for name, lane in run["lanes"].items()
            )
        )
    return "\n".join(parts)


def closing(run: Run, retried: list[str]) -> list[str]:
    """Return the lines that end the output of a run."""
    lines = [
        f"{name}: {lane['tests']} tests in {lane['seconds']} s"
        for name, lane in run["lanes"].items()
    ]
    lines.append(f"All lanes: {run['seconds']} s")
    if retried:
        lines += ["Passed only when retried alone, with the first error:", *retried]
    return lines


def main() -> None:
    """Run the command."""
    folder, kind, seconds = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    run = measured(folder, seconds)
    known: dict[str, Run] = json.loads(TABLE.read_text("utf-8")) if TABLE.exists() else {}
    runs = comparable(known | {kind: run})
    TABLE.write_text(json.dumps(runs, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    PAGE.write_text(page(runs), encoding="utf-8")
    retried = folder / RETRIED
    failed = retried.read_text(encoding="utf-8").splitlines() if retried.exists() else []
    sys.stdout.write("\n".join(closing(run, failed)) + "\n")


if __name__ == "__main__":
    main()
