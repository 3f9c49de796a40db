"""A pytest plugin: with `--at-once`, a failure is printed when it happens, and a long wait too.

By default, pytest explains failures when the last test has ended. A lane of `.ci/run` that is cut
because it takes too long would end without a word.
"""

import pytest

LONG = 60.0
"""Seconds after which the time of a test, or of what it is given, is printed."""
TOLD = 40
"""Lines of a failure: its end holds the cause."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--at-once", action="store_true", help="print each failure when it happens")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--at-once"):
        config.pluginmanager.register(AtOnce(config), "at-once")


class AtOnce:
    """Prints failures and long waits between the marks of the tests."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        lines = []
        if report.duration > LONG or report.failed:
            lines = [f"{report.nodeid}: {report.when} {report.outcome} in {report.duration:.0f} s"]
        if report.failed:
            lines += report.longreprtext.splitlines()[-TOLD:]
        if lines:
            terminal = self._config.pluginmanager.get_plugin("terminalreporter")
            assert terminal is not None
            terminal.ensure_newline()
            for line in lines:
                terminal.write_line(line)
