"""A pytest plugin that records the lines of the project that each test runs.

It runs inside the sandbox, in the interpreter of the project, so it uses the standard library and
pytest alone. `trace.json` beside it has its settings. It writes a line of JSON for each test, so
that earlier tests are not lost if one ends the process.
"""

import contextlib
import json
import os
import re
import signal
import sys
import threading
from collections import Counter
from collections.abc import Generator, Iterator
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

NOT_PROJECT = re.compile(
    r"(^|/)(\.[^/]+|site-packages|node_modules|venv|tests?)/|(^|/)(test_[^/]*|[^/]*_test|conftest)\.py$"
)
"""Libraries and tests, by their path from the workspace."""
SHOWN = re.compile(r"/_pytest/(assertion|_io)/|/unittest/util\.py$")
"""Code that shows the values of a failing assertion, by calling their `__repr__`."""
OFTEN = 200
"""Calls of a function in one test after which its lines are no longer recorded."""


class TooSlow(BaseException):
    """A test takes too long. Not an `Exception`, so that the project does not catch it."""


class Recorder:
    """The functions and lines of the project that the current test runs; a trace function."""

    def __init__(self, root: str) -> None:
        self.root = root.rstrip(os.sep) + os.sep
        """The workspace; only files below it count."""
        self.test_files: set[str] = set()
        self._paths: dict[CodeType, str | None] = {}
        self._shows: dict[CodeType, bool] = {}
        self.begin()

    def begin(self) -> None:
        """Forget the test before."""
        self.lines: dict[str, set[int]] = {}
        self._calls: Counter[CodeType] = Counter()
        self._showing = False

    def path(self, code: CodeType) -> str | None:
        """Return the file of a function from the workspace; None if it is not the project's."""
        if code not in self._paths:
            self._paths[code] = self._path(code.co_filename)
        return self._paths[code]

    def _path(self, name: str) -> str | None:
        if not name.startswith(self.root):
            return None
        path = name[len(self.root) :]
        return None if name in self.test_files or NOT_PROJECT.search(path) else path

    def __call__(self, frame: FrameType, _event: str, _argument: object) -> Any:
        """Record the lines of a call. The code of a module or class runs when it is imported."""
        code = frame.f_code
        path = self.path(code)
        if path is None:
            return self._show(code)
        if self._showing or not code.co_flags & CO_OPTIMIZED or self._calls[code] > OFTEN:
            return None
        self._calls[code] += 1
        lines = self.lines.setdefault(path, set())

        def record_line(frame: FrameType, event: str, _argument: object) -> Any:
            if event == "line":
                lines.add(frame.f_lineno)
            return record_line

        return record_line

    def _show(self, code: CodeType) -> Any:
        """Record nothing until this function returns, if it shows the values of an assertion."""
        if code not in self._shows:
            self._shows[code] = bool(SHOWN.search(code.co_filename))
        if self._showing or not self._shows[code]:
            return None
        self._showing = True

        def end(_frame: FrameType, event: str, _argument: object) -> Any:
            if event == "return":
                self._showing = False
            return end

        return end


class Plugin:
    """Chooses the tests, and writes what each of them ran."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.recorder = Recorder(settings["root"])
        self.outcome = "passed"
        self.frames: list[list[Any]] = []
        self.passed = 0

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Keep the failing tests, and those that are nearest to the first of them."""
        config.option.maxfail = 0
        self.recorder.test_files.update(str(item.path) for item in items)
        failing = [at for at, item in enumerate(items) if item.nodeid in self.settings["failing"]]
        if not failing:
            items.clear()
            return
        others = sorted(set(range(len(items))) - set(failing), key=lambda at: abs(at - failing[0]))
        items[:] = [items[at] for at in (*failing, *others[: self.settings["candidates"]])]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self) -> bool | None:
        """Pass over the rest once enough tests have passed."""
        return True if self.passed >= self.settings["passing"] else None

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_setup(self) -> Iterator[None]:
        """Begin a test."""
        self.recorder.begin()
        self.outcome, self.frames = "passed", []
        with self._traced():
            yield

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        """Trace the test itself."""
        with self._traced():
            yield

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, Any, None]:
        """Keep the first outcome that is not `passed`; the test is over after its teardown."""
        report = (yield).get_result()
        if report.outcome != "passed" and self.outcome == "passed":
            self.outcome = report.outcome
            self.frames = self._frames(call)
        if report.when == "teardown":
            self.passed += self.outcome == "passed"
            self._write(item.nodeid)

    def pytest_exception_interact(
        self, node: pytest.Item | pytest.Collector, call: pytest.CallInfo[Any]
    ) -> None:
        """Keep the error of a file that could not be imported."""
        if isinstance(node, pytest.Collector):
            self.recorder.begin()
            self.outcome, self.frames = "failed", self._frames(call)
            self._write(node.nodeid)

    @contextlib.contextmanager
    def _traced(self) -> Iterator[None]:
        """Record what runs here, and end it after some time."""
        before = sys.gettrace()
        on_alarm = signal.signal(signal.SIGALRM, _stop)
        signal.setitimer(signal.ITIMER_REAL, self.settings["seconds"])
        threading.settrace(self.recorder)
        sys.settrace(self.recorder)
        try:
            yield
        finally:
            sys.settrace(before)
            threading.settrace(before)
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, on_alarm)

    def _frames(self, call: pytest.CallInfo[Any]) -> list[list[Any]]:
        return list(_frames(call.excinfo.value, self.recorder)) if call.excinfo else []

    def _write(self, test: str) -> None:
        record = {
            "test": test,
            "outcome": self.outcome,
            "frames": self.frames,
            "lines": {path: sorted(lines) for path, lines in self.recorder.lines.items()},
        }
        with Path(self.settings["output"]).open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")


def pytest_configure(config: pytest.Config) -> None:
    """Read the settings and begin."""
    settings = Path(__file__).with_name("trace.json").read_text(encoding="utf-8")
    config.pluginmanager.register(Plugin(json.loads(settings)))


def _stop(_signal: int, _frame: FrameType | None) -> None:
    raise TooSlow("the test takes too long")


def _frames(
    error: BaseException, recorder: Recorder, seen: frozenset[int] = frozenset()
) -> Iterator[list[Any]]:
    """Yield file and line of each call, the innermost last.

    Before them are those of the exceptions that this one came from.
    """
    seen |= {id(error)}
    before = error.__cause__ or error.__context__
    if before is not None and id(before) not in seen:
        yield from _frames(before, recorder, seen)
    entry = error.__traceback__
    while entry is not None:
        code = entry.tb_frame.f_code
        path = recorder.path(code)
        if path is not None:
            yield [path, entry.tb_lineno]
        entry = entry.tb_next
    if isinstance(error, SyntaxError) and (error.filename or "").startswith(recorder.root):
        yield [str(error.filename)[len(recorder.root) :], error.lineno]
