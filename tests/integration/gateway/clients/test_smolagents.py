"""smolagents, whose agents call tools or write code."""

from pathlib import Path

import pytest

from tests.integration.gateway.clients.conftest import Clients
from tests.integration.gateway.conftest import Json
from tests.shown import Shown

EXTENDED_INPUTS = [
    "tests/clients/smolagents/*",
    "docs/howto/connect-programs.md",
    "tests/integration/gateway/clients/conftest.py",
    "moe_gateway/requests/pipeline.py",
    "moe_gateway/errors.py",
    "hearth/openai_api/*",
]
pytestmark = pytest.mark.extended


@pytest.fixture(scope="module")
def results(clients: Clients, tmp_path_factory: pytest.TempPathFactory) -> Json:
    return clients.results("smolagents", tmp_path_factory.mktemp("smolagents"))


def test_agents_run_to_their_end(results: Json, clients: Clients) -> None:
    """Forced calls of tools until the one that ends the run, and code that is executed."""
    assert results["whole"] == "Good day to you."
    assert results["streamed"] == {"words": ["Good ", "day ", "to ", "you."], "output": 4}
    assert results["tools"] == {
        "zones": ["CET", "CET", "UTC", "UTC"], "then": "It is noon.", "streamed": "It is noon.",
    }  # fmt: skip
    assert results["code"] == 42
    assert results["picture"] == "It is noon."
    clients.model.wait_until(lambda model: model.aborted == 1, timeout=60)


def test_response_format_holds_the_real_model_to_a_schema(results: Json) -> None:
    """The answer is read into the class whose schema was sent."""
    assert results["river"].keys() == {"name", "continent"}


def test_agents_tell_why_they_failed(results: Json) -> None:
    """By their own class, with the official exception as its cause."""
    names = ("refused", "wrong", "unknownModel", "wrongKey")

    assert {name: results[name]["kind"] for name in names} == {
        "refused": "RateLimitError",
        "wrong": "BadRequestError",
        "unknownModel": "NotFoundError",
        "wrongKey": "AuthenticationError",
    }
    assert "Too many." in results["refused"]["message"]
    assert "Did you mean 'small'" in results["unknownModel"]["message"]
    assert "the connection was reset" in results["broken"]


def test_how_to_is_true(clients: Clients, shown: Shown, tmp_path: Path) -> None:
    """The lines that a user copies from docs/howto/connect-programs.md work unchanged."""
    page = "docs/howto/connect-programs.md"
    said = clients.run("smolagents", tmp_path, "-c", shown.take(page))

    assert said.endswith("\n42\n")
