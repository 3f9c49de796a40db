"""OpenAI's Agents SDK, with both of its interfaces (Responses and chat)."""

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
    "tests/clients/openai_agents/*",
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
    return clients.results("openai_agents", tmp_path_factory.mktemp("openai_agents"))


@pytest.mark.parametrize("interface", INTERFACES)
def test_agents_understand_every_answer(results: Json, interface: str) -> None:
    """Two turns, a stream, two calls at once with their results, a picture."""
    found = results[interface]

    assert found["twoTurns"] == ["Good day to you."] * 2
    assert found["streamed"] == {"words": ["Good ", "day ", "to ", "you."], "output": 4}
    assert found["tools"] == {
        "zones": ["UTC", "CET"] * 2, "then": "It is noon.", "streamed": "It is noon.",
    }  # fmt: skip
    assert found["picture"] == "Good day to you."


@pytest.mark.parametrize("interface", INTERFACES)
def test_agents_hold_the_real_model_to_a_schema(results: Json, interface: str) -> None:
    """`output_type` is sent as a schema, and the SDK raises if the answer does not match it."""
    assert results[interface]["river"].keys() == {"name", "continent"}


@pytest.mark.parametrize("interface", INTERFACES)
def test_agents_raise_the_official_classes(results: Json, interface: str) -> None:
    """Programs catch the exceptions of the official client."""
    assert_official_classes(results[interface])


def test_cancelled_runs_stop_the_model(results: Json, clients: Clients) -> None:
    """One of each interface."""
    assert_streams_stopped(results, clients, INTERFACES)


def test_how_to_is_true(clients: Clients, shown: Shown, tmp_path: Path) -> None:
    """The lines that a user copies from docs/howto/connect-programs.md work unchanged."""
    page = "docs/howto/connect-programs.md"
    said = clients.run("openai_agents", tmp_path, "-c", shown.take(page))

    assert said == "Good day to you.\n"
