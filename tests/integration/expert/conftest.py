"""Experts with the real small model, one engine after the other."""

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from hearth.models.catalogue import FALLBACK, Catalogue
from hearth.models.pull import pull
from hearth.models.store import ModelStore
from hearth.settings import Engine
from tests.integration.expert import build_engines
from tests.integration.expert.clever import Clever
from tests.integration.expert.running import Expert, Starter

COMPILED = {"llama-server", "llama-cpp-python"}
PARAMETERS = [
    pytest.param(engine, marks=[pytest.mark.engines] if engine in COMPILED else [])
    for engine in get_args(Engine)
]


@pytest.fixture(scope="session")
def model_store() -> ModelStore:
    """A store with the embedded model, pulled once and kept for the next run of the tests."""
    store = ModelStore(build_engines.REPOSITORY / ".cache" / "models")
    pull(Catalogue.load()[FALLBACK], store)
    return store


@pytest.fixture(scope="session", params=PARAMETERS)
def starter(
    request: pytest.FixtureRequest,
    model_store: ModelStore,
    tmp_path_factory: pytest.TempPathFactory,
) -> Starter:
    """Starts experts with one engine; the tests run once for each."""
    engine: Engine = request.param
    if engine in COMPILED and not build_engines.built():
        pytest.skip(f"{engine} is not compiled here: make test-engines")
    return Starter(engine, tmp_path_factory.mktemp(engine), model_store.root)


@pytest.fixture(scope="session")
def expert(starter: Starter) -> Iterator[Expert]:
    """One expert for all tests that leave it as it was."""
    with starter.running() as running:
        yield running


@pytest.fixture
def embedded(model_store: ModelStore, tmp_path: Path) -> Starter:
    """Starts experts with the embedded engine, for what is the launcher's own doing."""
    return Starter("xllamacpp", tmp_path, model_store.root)


@pytest.fixture
def clever(model_store: ModelStore, tmp_path: Path) -> Clever:
    """A catalogue with the model `clever` beside the small one."""
    return Clever(model_store.root / FALLBACK, tmp_path)
