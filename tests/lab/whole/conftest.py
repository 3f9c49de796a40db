"""One cluster with everything, which all tests of this folder share: each leaves it whole."""

from collections.abc import Iterator

import pytest

from hearth.lab.lab import Lab
from hearth.release.environment import build
from tests.lab.conftest import Boot, Layer
from tests.lab.layers import three
from tests.lab.playbooks import ROOT, fetch, play


@pytest.fixture(scope="session")
def cluster(golden: Layer, boot: Boot) -> Iterator[Lab]:
    """Three hosts with everything that the playbook brings.

    Nomad and Consul began with one server (`three`), which stored something under `KEPT`.
    """
    lab = boot("whole", 3, layer=golden("machines", three))
    build(ROOT, ROOT / ".cache" / "releases", arch="x86_64", python="3.11")
    fetch(lab)
    play(lab)
    yield lab
    lab.down()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The cluster ends with the last of its tests."""
    items.sort(key=lambda item: item.path.name == "test_uninstall.py")
