"""The extended ring: tests that take long and whose code seldom changes.

A pytest plugin. A test marked `extended` is left out, except in `make test-extended` (`--extended
all`, or `with` other tests), which records its result in `tests/extended.json`, and when it is its
turn in continuous integration (`--extended rotate`). A module with such tests declares
`EXTENDED_INPUTS`, globs of the files that decide its results. `tests/rules` fails if a record is
missing, red, or made with other inputs, so a change of these files asks for `make test-extended`.
"""

import ast
import datetime
import hashlib
import json
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import TypedDict

import pytest

from tests.rules import tree

RECORDS = tree.ROOT / "tests" / "extended.json"
MARK = "pytest.mark.extended"
INPUTS = "EXTENDED_INPUTS"
LONGEST = 300.0
"""Seconds: modules with a test whose record took longer have no turn in continuous integration."""
LEFT_OUT = pytest.StashKey[set[str]]()
"""The node ids of the tests that this run leaves to the extended ring."""


class Record(TypedDict):
    """How a test ended when it was run last."""

    inputs: str
    """The hash of the files that decided it."""
    date: str
    seconds: float
    result: str


Records = dict[str, Record]


def records() -> Records:
    """Return the committed records by test."""
    found: Records = json.loads(RECORDS.read_text(encoding="utf-8")) if RECORDS.exists() else {}
    return found


@cache
def declared() -> dict[str, list[str]]:
    """Return test -> globs of its inputs, for every test of the extended ring."""
    found: dict[str, list[str]] = {}
    for file in tree.python("tests"):
        if file.name.startswith("test_") and MARK in tree.text(file):
            module = ast.parse(tree.text(file))
            names = [name for name in _marked(module) if name.startswith("test_")]
            if names:
                globs = [str(file), *_inputs(file, module)]
                found |= {f"{file}::{name}": globs for name in names}
    return found


@cache
def digest(globs: tuple[str, ...]) -> str:
    """Return the hash of the files of the checkout that match any of the globs.

    Raises `LookupError` for a glob that matches no file.
    """
    total = hashlib.sha256()
    for glob in sorted(globs):
        files = [file for file in tree.files() if fnmatch(str(file), glob)]
        if not files:
            raise LookupError(f"{INPUTS}: no file matches {glob!r}.")
        for file in files:
            total.update(f"{file}\0".encode() + (tree.ROOT / file).read_bytes())
    return total.hexdigest()[:16]


def stale(known: Records) -> list[str]:
    """Return a line for each test without a green record of its present inputs."""
    lines = []
    for test, globs in declared().items():
        record = known.get(test)
        if record is None:
            lines.append(f"{test}: no record")
        elif record["result"] != "passed":
            lines.append(f"{test}: {record['result']} on {record['date']}")
        elif record["inputs"] != digest(tuple(globs)):
            lines.append(f"{test}: its inputs have changed since {record['date']}")
    return lines + [f"{test}: no such test" for test in known if test not in declared()]


def turn(tests: Iterable[str], today: datetime.date) -> str | None:
    """Return the test whose turn it is on a day; each has its turn once in so many days."""
    ordered = sorted(tests)
    return ordered[today.toordinal() % len(ordered)] if ordered else None


def short(known: Records) -> list[str]:
    """Return the tests that have a turn in continuous integration: those that do not take hours.

    Where a test takes long, so may each other test of its module on a new machine, because the
    first one makes what they share.
    """
    long = {_module(test) for test, record in known.items() if record["seconds"] > LONGEST}
    return [test for test in known if _module(test) not in long]


class Ring:
    """Chooses the tests of one run and, in the mode `all`, records how they ended."""

    def __init__(self, mode: str, config: pytest.Config) -> None:
        self._mode = mode
        self._config = config
        self._chosen: set[str] = set()
        self._ended: Records = {}
        config.stash[LEFT_OUT] = set()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        today = turn(short(records()), datetime.datetime.now(datetime.UTC).date())
        marked = [item for item in items if item.get_closest_marker("extended")]
        runs = {
            "none": [],
            "rotate": [item for item in marked if _name(item.nodeid) == today],
            "all": marked,
            "with": marked,
        }[self._mode]
        left_out = [item for item in marked if item not in runs]
        if self._mode == "all":
            left_out = [item for item in items if item not in marked]
        self._chosen = {_name(item.nodeid) for item in runs}
        self._config.stash[LEFT_OUT] = {item.nodeid for item in marked if item in left_out}
        items[:] = [item for item in items if item not in left_out]
        self._config.hook.pytest_deselected(items=left_out)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = _name(report.nodeid)
        if test not in self._chosen:
            return
        before = self._ended.get(test)
        seconds = round(report.duration + (before["seconds"] if before else 0), 1)
        bad = report.outcome if report.outcome != "passed" else None
        result = bad or (before["result"] if before else "passed")
        self._ended[test] = {
            "inputs": digest(tuple(declared()[test])),
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "seconds": seconds,
            "result": result,
        }

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        if self._mode in ("all", "with") and self._ended:
            kept = {test: record for test, record in records().items() if test in declared()}
            text = json.dumps(kept | self._ended, indent=1, sort_keys=True)
            RECORDS.write_text(f"{text}\n", encoding="utf-8")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._mode == "rotate" and self._chosen:
            terminalreporter.line(f"Extended ring, today's test: {', '.join(self._chosen)}")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--extended",
        choices=["none", "rotate", "all", "with"],
        default="none",
        help="tests of the extended ring: none, the one of today, all alone, or all with the other"
        " tests; the last two record the results",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Ring(config.getoption("--extended"), config), "extended-ring")


def _name(nodeid: str) -> str:
    return nodeid.partition("[")[0]


def _module(test: str) -> str:
    return test.partition("::")[0]


def _inputs(file: Path, module: ast.Module) -> list[str]:
    for node in module.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == INPUTS:
            globs: list[str] = ast.literal_eval(node.value)
            return globs
    raise LookupError(f"{file} has tests of the extended ring and no {INPUTS}.")


def _marked(module: ast.Module) -> Iterator[str]:
    """Yield the names of the test functions with the mark, their own or the module's."""
    whole = any(
        isinstance(node, ast.Assign)
        and ast.unparse(node.targets[0]) == "pytestmark"
        and _has_mark(node.value.elts if isinstance(node.value, ast.List) else [node.value])
        for node in module.body
    )
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (
            whole or _has_mark(node.decorator_list)
        ):
            yield node.name


def _has_mark(marks: Iterable[ast.expr]) -> bool:
    return any(ast.unparse(mark) == MARK for mark in marks)
