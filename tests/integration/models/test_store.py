"""The store: what lies in it was checked, and is checked again only when it changed."""

import os
from pathlib import Path

import pytest

from hearth.models.catalogue import Model
from hearth.models.errors import ModelDamaged, ModelMissing
from hearth.models.progress import Silent
from hearth.models.store import ModelStore
from tests.integration.models.conftest import CONTENT, MakeModel


class Recorder(Silent):
    """Keeps the names of the steps that it was told."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    def step(self, text: str) -> None:
        self.steps.append(text)


@pytest.fixture
def model(make_model: MakeModel) -> Model:
    return make_model({"kind": "file", "path": "/nowhere"})


def lay(store: ModelStore, model: Model, content: bytes = CONTENT) -> Path:
    """Put a file where the model's file belongs, as a person would with `cp`."""
    path = store.path(model)
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    return path


def test_file_laid_by_hand_counts_only_after_its_check(store: ModelStore, model: Model) -> None:
    """A copied file is welcome, but nobody has compared it with the catalogue yet."""
    lay(store, model)

    before = store.installed(model)
    store.verify(model)

    assert (before, store.installed(model)) == (False, True)


def test_second_start_does_not_read_the_file_again(store: ModelStore, model: Model) -> None:
    """Reading twenty gigabytes at each start would take minutes."""
    lay(store, model)
    first, second = Recorder(), Recorder()

    store.ready(model, first)
    store.ready(model, second)

    assert (first.steps, second.steps) == (["checking"], [])


def test_file_that_changed_after_its_check_is_noticed(store: ModelStore, model: Model) -> None:
    """One flipped byte of the same length is still another model."""
    path = lay(store, model)
    store.verify(model)
    path.write_bytes(b"X" + CONTENT[1:])
    os.utime(path, ns=(0, 0))

    with pytest.raises(ModelDamaged, match=r"tiny\.gguf is damaged.*`hearth models pull tiny`"):
        store.ready(model)
    assert not store.installed(model)


def test_other_pin_makes_the_installed_file_wrong(
    store: ModelStore, model: Model, make_model: MakeModel
) -> None:
    """A catalogue that moved on to another file must not go on serving the old one."""
    lay(store, model)
    store.verify(model)

    other = make_model({"kind": "file", "path": "/nowhere"}, sha256="0" * 64)

    assert store.installed(model)
    assert not store.installed(other)


def test_missing_file_says_how_to_get_it(store: ModelStore, model: Model) -> None:
    """The person who reads it wants the next command, not the path."""
    with pytest.raises(ModelMissing, match=r"tiny is not pulled\. .*`hearth models pull tiny`"):
        store.ready(model)


def test_damaged_file_never_reaches_the_final_path(
    store: ModelStore, model: Model, tmp_path: Path
) -> None:
    """Whatever lies at the final path may be loaded by an engine at any moment."""
    fetched = tmp_path / "fetched"
    fetched.write_bytes(CONTENT[:-1])

    with pytest.raises(ModelDamaged, match="The downloaded file"):
        store.place(model, fetched, Silent())

    assert not store.path(model).exists()
    assert not fetched.exists()


def test_removed_model_leaves_nothing_of_it(store: ModelStore, model: Model) -> None:
    """People remove models to get their disk back."""
    lay(store, model)
    store.verify(model)

    assert store.remove(model)
    assert not store.folder(model).exists()
    assert not store.remove(model)
