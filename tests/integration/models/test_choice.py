"""Which models the expert tries: what `hearth models use` writes and `hearth up` reads."""

from pathlib import Path

import pytest

from hearth.models.catalogue import Catalogue
from hearth.models.choice import choice_file, choose, chosen
from hearth.models.errors import ChoiceInvalid, ModelMissing
from hearth.models.store import ModelStore
from hearth.service.state import StateDir
from tests.integration.models.conftest import CONTENT, MakeModel


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    return StateDir(tmp_path / "state")


@pytest.fixture
def catalogue(make_model: MakeModel, state: StateDir) -> Catalogue:
    """Has the one model `tiny`, which is pulled."""
    model = make_model({"kind": "file", "path": "/nowhere"})
    store = ModelStore(state.models)
    store.folder(model).mkdir(parents=True)
    store.path(model).write_bytes(CONTENT)
    store.verify(model)
    return Catalogue(models={"tiny": model})


def test_nothing_chosen_means_the_embedded_model(state: StateDir) -> None:
    """The first start works without a decision, and reading creates nothing."""
    assert chosen(state) == ["smollm2"]
    assert not state.root.exists()


def test_chosen_model_comes_first_and_the_small_one_last(
    state: StateDir, catalogue: Catalogue
) -> None:
    """A model that fails must not leave a home without any."""
    choose("tiny", state, catalogue)

    assert chosen(state) == ["tiny", "smollm2"]
    assert [path.name for path in state.root.glob("expert*")] == ["expert.json"]


def test_model_that_is_not_pulled_cannot_be_chosen(state: StateDir, catalogue: Catalogue) -> None:
    """Else the next start would begin with a download that nobody expects."""
    ModelStore(state.models).remove(catalogue["tiny"])

    with pytest.raises(ModelMissing, match="hearth models pull tiny"):
        choose("tiny", state, catalogue)
    assert not choice_file(state).exists()


def test_choice_that_cannot_be_read_says_how_to_mend_it(state: StateDir) -> None:
    """A file cut off by a crash is mended with the command that writes it."""
    state.root.mkdir()
    choice_file(state).write_text('{"models": [', encoding="utf-8")

    with pytest.raises(
        ChoiceInvalid, match=r"expert\.json is not a valid list.*hearth models use NAME"
    ):
        chosen(state)
