"""Hosts for tests: shared where they can be, recorded layers below them, evidence on failure."""

import os
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from hearth.lab.errors import LabError
from hearth.lab.lab import Lab
from hearth.lab.systems import DEFAULT
from hearth.settings import Settings
from tests.lab.evidence import evidence_of
from tests.lab.layers import Recipe
from tests.lab.playbooks import vault
from tests.lab.recorded import Notes, Record, Records

LABS = pytest.StashKey[dict[str, Lab]]()
OURS = f"tests-{os.getpid()}"
"""Two runs of the tests at a time have labs and layers of their own."""

Boot = Callable[..., Lab]
Golden = Callable[[Recipe], Record]


@pytest.fixture(scope="session")
def records() -> Iterator[Records]:
    """The recorded layers; those that this run uses stay until its labs are down."""
    records = Records(Lab("tests").folders, vault().parent)
    yield records
    records.release()


@pytest.fixture(scope="session")
def labs(request: pytest.FixtureRequest, records: Records) -> Iterator[dict[str, Lab]]:
    """Every lab of this run by its name; all are down, and its layers dropped, at the end.

    What runs that were killed have left is removed first.
    """
    del records  # Its layers are below the labs.
    _remove(lambda pid: not Path(f"/proc/{pid}").exists())
    request.config.stash[LABS] = {}
    yield request.config.stash[LABS]
    _remove(lambda pid: pid == os.getpid())


@pytest.fixture(scope="session")
def boot(labs: dict[str, Lab]) -> Boot:
    """`boot("name", 3, layer="…")`: the lab of that name, with that many hosts that answer.

    Labs with the same name are the same: a scenario that leaves its hosts as they were can share
    them with others.
    """

    def boot(name: str, nodes: int, *, layer: str | None = None, system: str = DEFAULT) -> Lab:
        lab = labs.setdefault(name, Lab(f"{OURS}-{name}"))
        lab.up(nodes, snapshot=layer, system=system)
        return lab

    return boot


@pytest.fixture(scope="session")
def golden(boot: Boot, records: Records) -> Golden:
    """`golden(MACHINES)`: the layer of that recipe, made unless it is recorded for its inputs.

    It is made from the layer below, whatever an earlier attempt has left. The power of all its
    hosts is cut at once to save it: a lab that begins with it is a house whose power comes back.
    """
    used: dict[str, Record] = {}

    def golden(recipe: Recipe) -> Record:
        if recipe.kind not in used:
            above = golden(recipe.above).layer if recipe.above else None

            def make(layer: str) -> Notes:
                name = f"golden-{recipe.kind}"
                Lab(f"{OURS}-{name}").down()
                lab = boot(name, recipe.hosts, layer=above)
                notes = recipe.make(lab)
                for node in lab.nodes():
                    node.kill()
                lab.save(layer)
                lab.down()
                return notes

            parts = [above or "", *recipe.parts()]
            used[recipe.kind] = records.use(recipe.kind, parts, make)
        return used[recipe.kind]

    return golden


@pytest.fixture(scope="session")
def bare(boot: Boot) -> Lab:
    """Three bare hosts; who uses them leaves them running, connected, and otherwise untouched."""
    return boot("bare", 3)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that fails shows what the hosts that are up say about it."""
    report = yield
    if report.failed:
        for lab in item.config.stash.get(LABS, {}).values():
            report.sections += [(f"{lab.name} {title}", text) for title, text in evidence_of(lab)]
    return report


def _remove(chosen: Callable[[int], bool]) -> None:
    """End the labs, then drop the layers, of the runs with the chosen process ids."""
    folders = Lab("tests", root=Settings.load().lab_dir).folders
    layers = list(folders.snapshots.glob("tests-*"))
    # Those above others go first; which these are is not in their names.
    for path in [*folders.labs.glob("tests-*"), *layers, *layers]:
        owner = re.match(r"tests-(\d+)-", path.name)
        if owner and chosen(int(owner[1])):
            with suppress(LabError):
                if path.parent == folders.labs:
                    Lab(path.name).down()
                else:
                    Lab("tests").drop(path.name)
