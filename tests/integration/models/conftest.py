"""Models small enough to be pulled a hundred times a second."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hearth.models.catalogue import Catalogue, Model
from hearth.models.store import ModelStore

CONTENT = bytes(range(256)) * 4096
"""One MiB that is not the same everywhere."""

MakeModel = Callable[..., Model]


@pytest.fixture
def make_model() -> MakeModel:
    """`make_model(source, **fields)` is a catalogue entry whose file is `CONTENT`."""

    def make(source: dict[str, Any], **fields: Any) -> Model:
        entry = {
            "about": "A model for tests.",
            "source": source,
            "file": "tiny.gguf",
            "sha256": hashlib.sha256(CONTENT).hexdigest(),
            "license": "Apache-2.0",
            "parameters": "1M",
            "context": 512,
            "chat_template": "embedded",
            "tools": "none",
            "ram_bytes": 1_000_000,
            "origin": "https://example.org/tiny",
        }
        return Catalogue.model_validate({"models": {"tiny": entry | fields}})["tiny"]

    return make


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path / "models")
