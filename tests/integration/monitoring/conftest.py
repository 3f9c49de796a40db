"""A real Prometheus that watches a real Hearth, a real Consul and this machine."""

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

from hearth.settings import Settings
from tests.integration.monitoring.house import House
from tests.integration.monitoring.prometheus import Prometheus

PACKAGES = {
    "prometheus": "prometheus",
    "promtool": "prometheus",
    "prometheus-node-exporter": "prometheus-node-exporter",
}
"""Program -> Debian's package of it."""


def program(name: str) -> str:
    """The path of a program that root installs from Debian."""
    found = shutil.which(name)
    if found is None:
        reason = f"There is no {name}: as root, apt-get install {PACKAGES[name]}"
        (pytest.fail if Settings.load().test_strict else pytest.skip)(reason)
    return str(found)


@pytest.fixture(scope="session")
def promtool() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs promtool with these arguments."""
    tool = program("promtool")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([tool, *arguments], capture_output=True, text=True, check=False)

    return run


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """The services, all healthy."""
    with House(tmp_path_factory.mktemp("house"), program("prometheus-node-exporter")) as house:
        yield house


@pytest.fixture(scope="module")
def prometheus(house: House, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Prometheus, which has seen every service of the house for a while."""
    folder = tmp_path_factory.mktemp("prometheus")
    with Prometheus(folder, program("prometheus"), house.targets(), house.expert_key) as watching:
        watching.wait_for_targets()
        time.sleep(watching.window)
        yield watching
