"""Run failed tests a second time, alone, and name those that passed only then.

Continuous integration (`.ci/run`) runs its tests in lanes, several at once on few processors. In
`FOLDER`, each lane has left `LANE.json` (what it proves: `--proofs-part`), `LANE.xml` (how each
test ended: `--junitxml`) and `LANE.cache`, the cache of pytest. `python -m tests.retry FOLDER LANE
... -- COMMAND ...` prints why tests failed and gives them to the command. Its exit code is 0 if all
of them pass now; then the proofs of the lanes are corrected, and `FOLDER/retried` lists the tests,
each with its first error, for the closing lines of the run. Otherwise this list is the end of its
output. More than a few causes are no accident and are not retried; an error in a shared fixture,
such as a cluster, is one cause.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

from tests.proofs import Results

MOST = 8
RETRIED = "retried"
TOLD = 40
"""Lines of a cause: the end of what a playbook printed holds the task that failed."""
WIDE = 200
COLOUR = re.compile(r"(?:#x1B|\x1b)\[[0-9;]*m")
"""As programs print it, and as a report writes it."""


def main() -> None:
    """The command."""
    end = sys.argv.index("--")
    folder, lanes, command = Path(sys.argv[1]), sys.argv[2:end], sys.argv[end + 1 :]
    if unfinished := [lane for lane in lanes if not (folder / f"{lane}.json").exists()]:
        sys.exit(f"No retry, because these lanes did not finish: {', '.join(unfinished)}")
    failed = sorted({test for lane in lanes for test in failures(folder / f"{lane}.cache")})
    found = causes(folder / f"{lane}.xml" for lane in lanes)
    for tests, told in found.values():
        say(f"Failed: {', '.join(tests)}", [line[:WIDE] for line in told.splitlines()[-TOLD:]])
    if not 0 < len(found) <= MOST:
        sys.exit(f"No retry: {len(failed)} tests failed for {len(found)} causes.")
    say("Failed beside other tests, retried alone", failed)
    ended = subprocess.run([*command, *failed], check=False)
    first = first_errors(folder / f"{lane}.xml" for lane in lanes)
    lines = [f"{test}: {first.get(test.rpartition('::')[2], '')}" for test in failed]
    if ended.returncode:
        say("Failed beside other tests, with the first error", lines)
        sys.exit(ended.returncode)
    for lane in lanes:
        correct(folder / f"{lane}.json", failed)
    (folder / RETRIED).write_text("\n".join(lines) + "\n", encoding="utf-8")


def failures(cache: Path) -> list[str]:
    """The tests that failed in the run which has this cache; none when all passed."""
    kept = cache / "v" / "cache" / "lastfailed"
    return list(json.loads(kept.read_text(encoding="utf-8"))) if kept.exists() else []


def causes(reports: Iterable[Path]) -> dict[str, tuple[list[str], str]]:
    """What tells causes apart -> names of the tests that failed of it, and all that was said.

    A failure is a cause of its own; an error in what tests are given is one for all of them.
    """
    found: dict[str, tuple[list[str], str]] = {}
    for report in reports:
        for case in ElementTree.parse(report).iter("testcase"):
            name = f"{case.get('classname')}.{case.get('name')}"
            for wrong in case:
                if wrong.tag in ("error", "failure"):
                    message = wrong.get("message", "")
                    cause = message if wrong.tag == "error" else f"{name}\n{message}"
                    tests, _ = found.setdefault(cause, ([], COLOUR.sub("", wrong.text or "")))
                    tests.append(name)
    return found


def first_errors(reports: Iterable[Path]) -> dict[str, str]:
    """Return name of a failed test -> the first line of its error."""
    return {
        str(case.get("name")): COLOUR.sub("", wrong.get("message", "")).partition("\n")[0][:WIDE]
        for report in reports
        for case in ElementTree.parse(report).iter("testcase")
        for wrong in case
        if wrong.tag in ("error", "failure")
    }


def correct(part: Path, passed: list[str]) -> None:
    """Say in the file what is proved now that these tests have passed."""
    names = {test.partition("[")[0] for test in passed}
    results: Results = json.loads(part.read_text(encoding="utf-8"))
    for tests in results.values():
        tests.update({name: "passed" for name in tests.keys() & names if tests[name] == "failed"})
    part.write_text(json.dumps(results), encoding="utf-8")


def say(what: str, lines: list[str]) -> None:
    """What it is and its lines, where whoever reads the end of a log sees it."""
    sys.stdout.write("\n".join([f"{what}:", *(f"  {line}" for line in lines), ""]))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
