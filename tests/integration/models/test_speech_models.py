"""Models of speech: several files, each from its own place."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from starlette.types import ASGIApp

from hearth.models.catalogue import Catalogue, SpeechModel
from hearth.models.errors import ModelDamaged
from hearth.models.pull import pull_speech
from hearth.models.store import ModelStore
from tests.integration.models.conftest import CONTENT
from tests.integration.models.hub import Hub

SUM = hashlib.sha256(CONTENT).hexdigest()


def model(**files: dict[str, Any]) -> SpeechModel:
    """An entry with these files, all of the same content."""
    pinned = {"sha256": SUM, "size_bytes": len(CONTENT)}
    entry = {
        "about": "A voice for tests.", "duty": "tts", "engine": "piper", "language": "de-DE",
        "license": "CC0-1.0", "ram_bytes": 1, "origin": "https://example.org",
        "files": {f"{name}.onnx": pinned | file for name, file in files.items()},
    }  # fmt: skip
    return Catalogue.model_validate({"models": {}, "speech": {"voice": entry}}).speech["voice"]


def test_files_come_from_an_address_and_from_a_disk(
    serve: Callable[[ASGIApp], str], tmp_path: Path, store: ModelStore
) -> None:
    """Voices of other languages lie at a hub; one of your own lies on your disk."""
    own = tmp_path / "own.onnx"
    own.write_bytes(CONTENT)
    wanted = model(hub={"url": f"{serve(Hub(CONTENT))}/voice.onnx"}, disk={"path": str(own)})

    folder = pull_speech(wanted, store)

    assert [store.ready(file).read_bytes() == CONTENT for file in wanted.files] == [True, True]
    assert sorted(p.name for p in folder.glob("*.onnx")) == ["disk.onnx", "hub.onnx"]
    assert wanted.size_bytes == 2 * len(CONTENT)


def test_other_bytes_than_the_pinned_ones_do_not_get_in(
    serve: Callable[[ASGIApp], str], store: ModelStore
) -> None:
    """A hub may be wrong, or somebody else."""
    wanted = model(hub={"url": f"{serve(Hub(CONTENT[::-1]))}/voice.onnx"})

    with pytest.raises(ModelDamaged):
        pull_speech(wanted, store)
    assert not store.path(wanted.files[0]).exists()


@pytest.mark.parametrize(
    ("file", "told"),
    [
        ({}, "one of `member`, `url` and `path`"),
        ({"url": "https://a.example/x", "path": "/x"}, "one of `member`, `url` and `path`"),
        ({"url": "http://a.example/x"}, "must begin with https"),
        ({"member": "x"}, "needs the wheel"),
    ],
)
def test_file_comes_from_exactly_one_safe_place(file: dict[str, str], told: str) -> None:
    """What the catalogue means must not depend on the order in which we look."""
    with pytest.raises(ValidationError, match=told):
        model(voice=file)
