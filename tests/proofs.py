"""The proof book: which requirement is asserted by which test, and how that test ended.

A pytest plugin. Every run collects the outcomes of the tests marked `proves(number)`.
`--proofs write` turns them into the committed table; `--proofs check` fails the run when the
committed table says anything that this run did not show. Where several runs are one whole
(continuous integration: `.ci/run`), each has `--proofs-part FILE`, and then
`python -m tests.proofs check FILE …`, or `write`, looks at all of them.
"""

import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests import extended, rings

ROOT = Path(__file__).parents[1]
REQUIREMENTS = ROOT / "docs" / "requirements.md"
TABLE = ROOT / "docs" / "reference" / "proofs.json"
PAGE = ROOT / "docs" / "reference" / "proofs.md"

NOT_SHOWN = (
    "docs/reference/proofs.json is not what the tests showed. Run `make proofs` and commit what it"
    " writes."
)

Results = dict[str, dict[str, str]]
"""Requirement number -> test -> "passed" | "failed" | "skipped"."""


def requirements() -> dict[str, str]:
    """Every requirement: number -> statement, in the order of the page."""
    line = re.compile(r"^- \*\*(\d{3}-\d{2})\*\* (.+)$", re.MULTILINE)
    return dict(line.findall(REQUIREMENTS.read_text(encoding="utf-8")))


def proved(results: Results) -> list[str]:
    """The numbers that stand: at least one test, and every one of them passed."""
    return [n for n in sorted(results) if results[n] and set(results[n].values()) == {"passed"}]


def page(results: Results) -> str:
    """`docs/reference/proofs.md`: requirement, tests, result."""
    done = set(proved(results))
    rows = [
        "# Proved requirements",
        "",
        "Written by `make proofs` from a run of the tests; do not edit. A requirement without a",
        "green test says *not yet*.",
        "",
        f"{len(done)} of {len(requirements())} requirements are proved.",
        "",
        "| number | requirement | tests | result |",
        "| --- | --- | --- | --- |",
    ]
    for number, statement in requirements().items():
        tests = "<br>".join(f"`{test}`" for test in sorted(results.get(number, {})))
        words = statement.replace("|", "\\|")
        result = "proved" if number in done else "not yet"
        rows.append(f"| {number} | {words} | {tests} | {result} |")
    return "\n".join(rows) + "\n"


def joined(parts: Iterable[Results]) -> Results:
    """What several runs show together. A test that two of them ran has passed if it did in both."""
    whole: Results = {}
    for part in parts:
        for number, tests in part.items():
            known = whole.setdefault(number, {})
            for test, outcome in tests.items():
                if known.get(test, "passed") == "passed":
                    known[test] = outcome
    return whole


def difference(shown: Results) -> list[str]:
    """Where the committed table says something else, a line for each requirement."""
    table = committed()
    return [
        f"  {number}: table {table.get(number, {})}, shown {shown.get(number, {})}"
        for number in sorted({*shown, *table})
        if shown.get(number, {}) != table.get(number, {})
    ]


def committed() -> Results:
    """The table as it is in the repository."""
    results: Results = json.loads(TABLE.read_text(encoding="utf-8")) if TABLE.exists() else {}
    return results


def write(results: Results) -> None:
    """Write the table and its page."""
    TABLE.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    PAGE.write_text(page(results), encoding="utf-8")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--proofs",
        choices=["write", "check"],
        help="write: make the proof table anew; check: fail when it is not what this run shows",
    )
    parser.addoption(
        "--proofs-part", type=Path, metavar="FILE",
        help="write what this run shows, as one of several, for `python -m tests.proofs`",
    )  # fmt: skip


class ProofBook:
    """Collects, during one run, how the marked tests ended."""

    def __init__(self, config: pytest.Config) -> None:
        self.mode = config.getoption("--proofs")
        self.part: Path | None = config.getoption("--proofs-part")
        self.config = config
        self.results: defaultdict[str, dict[str, str]] = defaultdict(dict)
        self.numbers: dict[str, list[str]] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            marks = [str(n) for mark in item.iter_markers("proves") for n in mark.args]
            if marks:
                self.numbers[item.nodeid] = marks

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for number in self.numbers.get(report.nodeid, ()):
            test = report.nodeid.partition("[")[0]
            before = self.results[number].get(test, "passed")
            worse = report.outcome if report.outcome != "passed" else before
            self.results[number][test] = "failed" if "failed" in (before, worse) else worse

    def shown(self) -> Results:
        """What this run shows, and what the table says of tests that this machine leaves out."""
        stash = self.config.stash
        nodes = [*stash[rings.LEFT_OUT], *stash[extended.LEFT_OUT]]
        left_out = {node.partition("[")[0] for node in nodes}
        results: Results = {number: dict(tests) for number, tests in self.results.items()}
        for number, tests in committed().items():
            for test in tests.keys() & left_out:
                results.setdefault(number, {})[test] = tests[test]
        return results

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.part is not None:
            self.part.write_text(json.dumps(self.shown()), encoding="utf-8")
        if self.mode == "write":
            write(self.shown())
        elif self.mode == "check" and difference(self.shown()):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.mode == "check" and (lines := difference(self.shown())):
            terminalreporter.section("proof table")
            for line in [NOT_SHOWN, *lines]:
                terminalreporter.line(line)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(ProofBook(config), "proof-book")


def main() -> None:
    """`python -m tests.proofs check|write FILE …`. Exit code 1 when the table is not what the runs
    show together."""
    mode, *files = sys.argv[1:] or [""]
    if mode not in ("check", "write") or not files:
        sys.exit("Usage: python -m tests.proofs check|write FILE …")
    shown = joined(json.loads(Path(file).read_text(encoding="utf-8")) for file in files)
    if mode == "write":
        write(shown)
    elif lines := difference(shown):
        sys.exit("\n".join([NOT_SHOWN, *lines]))


if __name__ == "__main__":
    main()
