"""LlamaIndex, with both of its interfaces for servers other than OpenAI's (chat and Responses)."""

from pathlib import Path

import pytest

from tests.integration.gateway.clients.checks import (
    assert_official_classes,
    assert_streams_stopped,
)
from tests.integration.gateway.clients.conftest import Clients
from tests.integration.gateway.conftest import Json
from tests.shown import Shown

EXTENDED_INPUTS = [
    "tests/clients/llama_index/*",
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

INTERFACES = ("chat", "responses")
ZONES = [{"zone": "UTC"}, {"zone": "CET"}]


@pytest.fixture(scope="module")
def results(clients: Clients, tmp_path_factory: pytest.TempPathFactory) -> Json:
    return clients.results("llama_index", tmp_path_factory.mktemp("llama_index"))


@pytest.mark.parametrize("interface", INTERFACES)
def test_llama_index_understands_every_answer(results: Json, interface: str) -> None:
    """Two turns, a stream, two calls at once with their results, a picture, a retry."""
    found = results[interface]

    assert found["twoTurns"] == ["Good day to you."] * 2
    assert found["streamed"] == ["Good ", "day ", "to ", "you."]
    assert found["tools"] == {"calls": ZONES, "streamed": ZONES, "then": "It is noon."}
    assert found["picture"] == "Good day to you."
    assert found["retried"] == "Now."
    assert results["completion"] == "Good day to you."


@pytest.mark.parametrize("interface", INTERFACES)
def test_llama_index_holds_the_real_model_to_a_schema(results: Json, interface: str) -> None:
    """`structured_predict` reads the answer into a class."""
    assert results[interface]["river"].keys() == {"name", "continent"}


@pytest.mark.parametrize("interface", INTERFACES)
def test_llama_index_raises_the_official_classes(results: Json, interface: str) -> None:
    """Programs catch the exceptions of the official client."""
    assert_official_classes(results[interface])


def test_closed_streams_stop_the_model(results: Json, clients: Clients) -> None:
    """One of each interface."""
    assert_streams_stopped(results, clients, INTERFACES)


def test_how_to_is_true(clients: Clients, shown: Shown, tmp_path: Path) -> None:
    """The lines that a user copies from docs/howto/connect-programs.md work unchanged."""
    page = "docs/howto/connect-programs.md"
    said = clients.run("llama_index", tmp_path, "-c", shown.take(page))

    assert said == "Good day to you.\n"
