"""Pydantic AI, with both of its interfaces (Responses and chat)."""

from pathlib import Path

import pytest

from tests.integration.gateway.clients.checks import (
    assert_streams_stopped,
    assert_words_of_the_gateway,
)
from tests.integration.gateway.clients.conftest import Clients
from tests.integration.gateway.conftest import Json
from tests.shown import Shown

EXTENDED_INPUTS = [
    "tests/clients/pydantic_ai/*",
    "docs/howto/connect-programs.md",
    "tests/integration/gateway/clients/checks.py",
    "tests/integration/gateway/clients/conftest.py",
    "moe_gateway/requests/pipeline.py",
    "moe_gateway/errors.py",
    "moe_gateway/requests/translated.py",
    "moe_gateway/routing/turns.py",
    "moe_gateway/responses/*",
    "hearth/openai_api/*",
]
pytestmark = pytest.mark.extended

INTERFACES = ("responses", "chat")


@pytest.fixture(scope="module")
def results(clients: Clients, tmp_path_factory: pytest.TempPathFactory) -> Json:
    return clients.results("pydantic_ai", tmp_path_factory.mktemp("pydantic_ai"))


@pytest.mark.parametrize("interface", INTERFACES)
def test_pydantic_ai_understands_every_answer(results: Json, interface: str) -> None:
    """Two turns, a stream, two calls at once with their results, a picture."""
    found = results[interface]

    assert found["twoTurns"] == ["Good day to you."] * 2
    assert found["streamed"] == {"words": ["Good ", "day ", "to ", "you."], "output": 4}
    assert found["tools"] == {
        "zones": ["CET", "CET", "UTC", "UTC"], "then": "It is noon.", "streamed": "It is noon.",
    }  # fmt: skip
    assert found["picture"] == "Good day to you."
    assert results["embeddings"] == [2, 2]


@pytest.mark.parametrize("interface", INTERFACES)
def test_pydantic_ai_holds_the_real_model_to_a_schema(results: Json, interface: str) -> None:
    """`NativeOutput` sends the schema of a class; the answer is read into that class."""
    assert results[interface]["river"].keys() == {"name", "continent"}


@pytest.mark.parametrize("interface", INTERFACES)
def test_pydantic_ai_raises_its_class_for_each_failure(results: Json, interface: str) -> None:
    """Its fallback to another model is chosen by these classes."""
    found = results[interface]

    names = ("refused", "wrong", "unknownModel", "wrongKey")
    assert [found[name]["status"] for name in names] == [429, 400, 404, 401]
    assert "ModelRateLimitError" in found["refused"]["kinds"]
    assert "ModelNotFoundError" in found["unknownModel"]["kinds"]
    assert "ModelAuthenticationError" in found["wrongKey"]["kinds"]
    assert_words_of_the_gateway(found)


def test_cancelled_streams_stop_the_model(results: Json, clients: Clients) -> None:
    """One of each interface."""
    assert_streams_stopped(results, clients, INTERFACES)


def test_how_to_is_true(clients: Clients, shown: Shown, tmp_path: Path) -> None:
    """The lines that a user copies from docs/howto/connect-programs.md work unchanged."""
    page = "docs/howto/connect-programs.md"
    said = clients.run("pydantic_ai", tmp_path, "-c", shown.take(page))

    assert said.startswith("Good day to you.\nname=")
