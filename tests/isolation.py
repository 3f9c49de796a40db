"""Unit tests start no process and open no connection, so that all of them run in two minutes.

A pytest plugin. A test below `tests/unit` fails if it starts a process, or binds or connects a
socket: it belongs to `tests/integration`.
"""

import sys
from collections.abc import Generator

import pytest

FOLDER = "tests/unit/"
FORBIDDEN = frozenset(
    {"socket.bind", "socket.connect", "subprocess.Popen", "os.exec", "os.fork", "os.posix_spawn"}
)
"""Audit events (Python documentation, "Audit events table")."""
MESSAGE = "A unit test starts no process and opens no connection: move it to tests/integration."


class Watch:
    """Collects the forbidden events while a unit test runs."""

    def __init__(self) -> None:
        self.watching = False
        self.seen: list[str] = []

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.watching and event in FORBIDDEN:
            self.seen.append(f"{event} {arguments}")


WATCH = Watch()


def pytest_configure() -> None:
    sys.addaudithook(WATCH)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    WATCH.watching = item.nodeid.startswith(FOLDER)
    WATCH.seen.clear()
    result = yield
    WATCH.watching = False
    return result


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "teardown" and WATCH.seen:
        report.outcome = "failed"
        report.longrepr = f"{MESSAGE}\n" + "\n".join(WATCH.seen)
    return report
