"""The rings of the tests: what needs hosts, or a Nomad, runs where those are to be had.

A pytest plugin. A test marked `hosts` is skipped, with the reason, where this machine cannot boot
hosts; in strict mode that is a failure, as every skip is. A test marked `nomad` is left out where
there is no Nomad, also in strict mode, because no package registry has one: the last line of the
command then says so.
"""

import pytest

from hearth.cluster import binaries
from hearth.lab import programs
from hearth.lab.errors import LabError

NOT_PROVEN = "NOT PROVEN HERE: nomad (no binary; set HEARTH_NOMAD_BINARY)"
LEFT_OUT = pytest.StashKey[set[str]]()
"""The tests that this machine cannot run and that do not count: their node ids."""


def pytest_configure(config: pytest.Config) -> None:
    config.stash[LEFT_OUT] = set()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Look for what a ring needs only when a test of it was chosen."""
    hosts = [item for item in items if item.get_closest_marker("hosts")]
    if hosts and (reason := no_hosts()):
        for item in hosts:
            item.add_marker(pytest.mark.skip(reason=reason))
    nomad = [item for item in items if item.get_closest_marker("nomad")]
    if nomad and binaries.find("nomad") is None:
        config.stash[LEFT_OUT] |= {item.nodeid for item in nomad}
        items[:] = [item for item in items if item not in nomad]
        config.hook.pytest_deselected(items=nomad)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and config.stash[LEFT_OUT]:
        terminal.write_line(NOT_PROVEN, yellow=True, bold=True)


def no_hosts() -> str | None:
    """Why this machine cannot boot hosts; nothing when it can."""
    try:
        programs.check()
    except LabError as error:
        return str(error)
    return None
