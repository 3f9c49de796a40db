"""Strictness: with `HEARTH_TEST_STRICT=1` a skipped test is a failed one.

A pytest plugin, so that a skip cannot hide on a machine whose task is to prove everything.
"""

from collections.abc import Generator

import pytest

from hearth.settings import Settings


def pytest_configure(config: pytest.Config) -> None:
    if Settings.load().test_strict:
        config.pluginmanager.register(NoSkips(), "no-skips")


class NoSkips:
    """Turns skips, expected failures and skipped modules into failures that give the reason."""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.outcome == "skipped":
            report.outcome = "failed"
            report.longrepr = f"skipped, which strict mode does not allow: {_reason(report)}"
        return report

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        report = yield
        if report.outcome == "skipped":
            report.outcome = "failed"
            report.longrepr = f"skipped, which strict mode does not allow: {_reason(report)}"
        return report


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])
    return str(report.longrepr)
