"""One cluster with everything, which all tests of this folder share: each leaves it whole."""

from collections.abc import Iterator

import pytest

from hearth.lab.lab import Lab
from tests.lab.conftest import Boot, Golden
from tests.lab.layers import WHOLE
from tests.lab.playbooks import fetch, release
from tests.lab.recorded import Record
from tests.lab.whole.asking import settle


@pytest.fixture(scope="session")
def recorded(golden: Golden) -> Record:
    """The cluster as the playbook brought it up, in this run or in one before it."""
    return golden(WHOLE)


@pytest.fixture(scope="session")
def cluster(recorded: Record, boot: Boot) -> Iterator[Lab]:
    """Three hosts with everything that the playbook brings, after a power cut of them all.

    Nomad and Consul began with one server (`three`), which stored something under `KEPT`.
    """
    lab = boot("whole", 3, layer=recorded.layer)
    release()
    fetch()
    settle(lab)
    yield lab
    lab.down()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The cluster ends with the last of its tests."""
    items.sort(key=lambda item: item.path.name == "test_uninstall.py")
