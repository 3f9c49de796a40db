"""Tests that failed while others ran beside them, asked once more with the machine for themselves.

Continuous integration (`.ci/run`) runs its tests in lanes, several at once on few processors. In
`FOLDER`, each lane has left `LANE.json` (what it proves: `--proofs-part`) and `LANE.cache`, the
cache of pytest. `python -m tests.again FOLDER LANE … -- COMMAND …` gives what failed there to the
command; its exit code is 0 when all of it passes now, and then what the lanes prove is corrected.
More than a few failures are no accident and are not asked again.
"""

import json
import subprocess
import sys
from pathlib import Path

from tests.proofs import Results

MOST = 5


def main() -> None:
    """The command."""
    end = sys.argv.index("--")
    folder, lanes, command = Path(sys.argv[1]), sys.argv[2:end], sys.argv[end + 1 :]
    if unfinished := [lane for lane in lanes if not (folder / f"{lane}.json").exists()]:
        sys.exit(f"Not asked again, since not all was asked once: {', '.join(unfinished)}")
    failed = sorted({test for lane in lanes for test in failures(folder / f"{lane}.cache")})
    if not 0 < len(failed) <= MOST:
        sys.exit(f"Not asked again: {len(failed)} tests failed.")
    say("Failed beside others, asked again alone", failed)
    ended = subprocess.run([*command, *failed], check=False)
    if ended.returncode:
        sys.exit(ended.returncode)
    for lane in lanes:
        correct(folder / f"{lane}.json", failed)
    say("Passed only when asked again: these depend on how busy the machine is", failed)


def failures(cache: Path) -> list[str]:
    """The tests that failed in the run which has this cache; none when all passed."""
    kept = cache / "v" / "cache" / "lastfailed"
    return list(json.loads(kept.read_text(encoding="utf-8"))) if kept.exists() else []


def correct(part: Path, passed: list[str]) -> None:
    """Say in the file what is proved now that these tests have passed."""
    names = {test.partition("[")[0] for test in passed}
    results: Results = json.loads(part.read_text(encoding="utf-8"))
    for tests in results.values():
        tests.update({name: "passed" for name in tests.keys() & names if tests[name] == "failed"})
    part.write_text(json.dumps(results), encoding="utf-8")


def say(what: str, tests: list[str]) -> None:
    """One line a test, where whoever reads the end of a log sees it."""
    sys.stdout.write("\n".join([f"{what}:", *(f"  {test}" for test in tests), ""]))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
