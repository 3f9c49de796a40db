"""Layers that later runs of the lab's tests use again: no root needed, a layer here is one file."""

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hearth.lab.disk import Disk
from hearth.lab.errors import LabError, SnapshotInUse
from hearth.lab.folders import Folders
from hearth.lab.snapshots import COMPLETE
from tests.lab.recorded import DAYS, KEPT, Notes, Record, Records

Damage = Callable[[Path], object]


class Run:
    """One run of the tests: its secrets, and what it had to make."""

    def __init__(self, root: Path, secrets: Path) -> None:
        secrets.mkdir()
        self.folders, self.secrets = Folders(root), secrets
        self.vault = secrets / "cluster.vault.yaml"
        self.records = Records(self.folders, secrets)
        self.made: list[str] = []

    def use(self, kind: str, *parts: str, above: str | None = None) -> Record:
        """Use a layer, as the fixture `golden` does; its only host has one file."""

        def make(layer: str) -> Notes:
            self.made.append(kind)
            if not self.vault.exists():
                self.vault.write_text(f"secrets of {self.secrets.name}", encoding="utf-8")
            below = [] if above is None else [self.folders.snapshot(above) / "node1" / "upper"]
            disk = Disk(self.folders.snapshot(layer) / "node1")
            disk.make(below)
            (disk.upper / "file").write_text(kind, encoding="utf-8")
            (self.folders.snapshot(layer) / COMPLETE).touch()
            return {"made": self.secrets.name}

        return self.records.use(kind, [above or "", *parts], make)

    def layers(self) -> list[str]:
        return [path.name.rpartition("-")[0] for path in sorted(self.folders.snapshots.iterdir())]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[[str], Run]]:
    """`run("first")`: a run of the tests; all of them share a lab folder."""
    runs: list[Run] = []

    def run(name: str) -> Run:
        runs.append(Run(tmp_path / "lab", tmp_path / name))
        return runs[-1]

    yield run
    for one in runs:
        one.records.release()


def test_layer_is_made_once_for_the_same_inputs(run: Callable[[str], Run]) -> None:
    """A later run begins where the first one was: with its hosts, its secrets and its notes."""
    first, second = run("first"), run("second")
    made = first.use("servers", "roles")

    found = second.use("servers", "roles")

    assert found == made == Record(made.layer, {"made": "first"})
    assert (first.made, second.made) == (["servers"], [])
    assert second.vault.read_text() == "secrets of first"


def test_change_of_an_input_makes_another_layer(run: Callable[[str], Run]) -> None:
    """What is tested must be what is in the checkout; the layer below is an input, too."""
    first, second = run("first"), run("second")
    below = first.use("servers", "roles").layer
    first.use("machines", "code", above=below)

    second.use("machines", "other code", above=second.use("servers", "roles").layer)
    third = run("third")
    third.use("machines", "code", above=third.use("servers", "other roles").layer)

    assert second.made == ["machines"]
    assert third.made == ["servers", "machines"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda layer: (layer / "node1/upper/file").unlink(),
        lambda layer: (layer / "node1/upper/file").write_text("other"),
        lambda layer: (layer / "node1/upper/more").touch(),
        lambda layer: shutil.rmtree(layer / "node1"),
        lambda layer: (layer / COMPLETE).unlink(),
        lambda layer: (layer / "record/digest").unlink(),
        lambda layer: shutil.rmtree(layer / "record"),
        lambda layer: os.utime(layer / "record/digest", (0, time.time() - (DAYS + 1) * 24 * 3600)),
    ],
    ids=["removed", "written", "added", "host", "saved", "recorded", "secrets", "old"],
)
def test_layer_that_is_not_whole_is_made_again(run: Callable[[str], Run], damage: Damage) -> None:
    """A disk that was full, or a run that was killed, may not cost a person a search; and what was
    built on the layer goes with it."""
    first, second = run("first"), run("second")
    below = first.use("servers").layer
    first.use("machines", above=below)
    first.records.release()
    damage(first.folders.snapshot(below))

    second.use("machines", above=second.use("servers").layer)

    assert second.made == ["servers", "machines"]
    assert second.vault.read_text() == "secrets of second"


def test_layer_is_made_again_where_making_it_failed(run: Callable[[str], Run]) -> None:
    """A converge that fails is no state to begin with, for this run or another."""
    first = run("first")

    def fail(layer: str) -> Notes:
        (first.folders.snapshot(layer) / "node1").mkdir(parents=True)
        raise LabError("it failed")

    with pytest.raises(LabError, match="it failed"):
        first.records.use("servers", [""], fail)
    first.use("servers")

    assert first.made == ["servers"]


def test_run_waits_for_a_layer_that_another_one_is_making(run: Callable[[str], Run]) -> None:
    """Two runs at a time make it once, and neither sees half of it."""
    first, second = run("first"), run("second")
    making, go_on = threading.Event(), threading.Event()

    def make(layer: str) -> Notes:
        making.set()
        assert go_on.wait(10)
        disk = Disk(first.folders.snapshot(layer) / "node1")
        disk.make([])
        (first.folders.snapshot(layer) / COMPLETE).touch()
        return {}

    one = threading.Thread(target=lambda: first.records.use("servers", [""], make))
    two = threading.Thread(target=lambda: second.use("servers"))
    one.start()
    assert making.wait(10)
    two.start()
    two.join(0.1)
    waited = two.is_alive()
    go_on.set()
    one.join(10)
    two.join(10)

    assert waited
    assert second.made == []


def test_layers_that_no_run_uses_are_removed_but_for_a_few(run: Callable[[str], Run]) -> None:
    """The disk of a machine on which every commit is tested would be full after a week."""
    for number in range(KEPT + 2):
        each = run(f"run{number}")
        below = each.use("servers", f"roles {number}").layer
        each.use("machines", above=below)
        each.records.release()

    left = run("last")
    left.use("servers", "roles 0")

    assert sorted(left.layers()) == ["recorded-machines"] * (KEPT - 1) + [
        "recorded-servers"
    ] * KEPT  # fmt: skip
    assert left.made == ["servers"]


def test_layer_that_a_run_uses_is_not_removed(run: Callable[[str], Run]) -> None:
    """Its hosts would lose the disk below them."""
    user = run("user")
    below = user.use("servers", "roles").layer
    above = user.use("machines", above=below).layer
    old = time.time() - (DAYS + 1) * 24 * 3600
    for layer in (below, above):
        os.utime(user.folders.root / "locks" / layer, (old, old))

    run("other").use("servers", "other roles")
    used = user.layers()
    user.records.release()
    run("last").use("servers", "other roles")

    assert used == ["recorded-machines", "recorded-servers", "recorded-servers"]
    assert user.layers() == ["recorded-servers"]


def test_layer_below_a_lab_is_not_made_again(run: Callable[[str], Run]) -> None:
    """A person tries something on it: that is told, and nothing is taken away."""
    first = run("first")
    below = first.use("servers").layer
    Disk(first.folders.lab("mine") / "nodes" / "node1").make(
        [first.folders.snapshot(below) / "node1" / "upper"]
    )
    first.records.release()
    (first.folders.snapshot(below) / "node1/upper/file").unlink()

    with pytest.raises(SnapshotInUse, match="mine"):
        run("second").use("servers")


def test_secrets_of_hosts_without_a_layer_are_replaced(run: Callable[[str], Run]) -> None:
    """Tests of bare hosts may make some first, which no cluster of a layer knows."""
    run("first").use("servers")
    second = run("second")
    second.vault.write_text("secrets of bare hosts")

    second.use("servers")

    assert second.vault.read_text() == "secrets of first"
