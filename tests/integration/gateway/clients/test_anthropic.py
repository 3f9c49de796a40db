"""Anthropic's official client: programs that are written for Claude speak through it."""

from pathlib import Path

import pytest

from tests.integration.gateway.clients.conftest import Clients
from tests.integration.gateway.conftest import Json
from tests.shown import Shown

EXTENDED_INPUTS = [
    "tests/clients/anthropic/*",
    "docs/howto/connect-programs.md",
    "tests/integration/gateway/clients/conftest.py",
    "moe_gateway/requests/pipeline.py",
    "moe_gateway/errors.py",
    "moe_gateway/requests/translated.py",
    "moe_gateway/api/anthropic/*",
    "hearth/openai_api/*",
]
pytestmark = pytest.mark.extended

ZONES = [{"zone": "UTC"}, {"zone": "CET"}]


@pytest.fixture(scope="module")
def results(clients: Clients, tmp_path_factory: pytest.TempPathFactory) -> Json:
    return clients.results("anthropic", tmp_path_factory.mktemp("anthropic"))


def test_client_understands_every_answer(results: Json, clients: Clients) -> None:
    """Each case is something that a program does through it."""
    assert results["whole"] == {
        "text": "Good day to you.", "stop": "end_turn", "output": 4, "id": True,
    }  # fmt: skip
    assert results["streamed"] == {
        "words": ["Good ", "day ", "to ", "you."],
        "text": "Good day to you.",
        "stop": "end_turn",
        "output": 4,
    }
    assert results["tools"] == {
        "stop": "tool_use", "calls": ZONES, "streamed": ZONES, "then": "It is noon.",
    }  # fmt: skip
    assert (results["picture"], results["bearer"]) == ("Good day to you.", "Good day to you.")
    assert results["retried"] == "Now."
    assert results["counted"] >= 1
    clients.model.wait_until(lambda model: model.aborted == 1, timeout=60)


def test_client_speaks_with_the_real_model(results: Json) -> None:
    """Held to a schema, and cut short at its limit."""
    assert results["river"].keys() == {"name"}
    assert results["real"] == {"stop": "max_tokens", "output": 8}


def test_client_raises_its_class_for_each_failure(results: Json) -> None:
    """Programs choose by these classes what to do next."""
    names = ("refused", "wrong", "unknownModel", "wrongKey", "broken")

    kinds = {name: results[name]["kind"] for name in names}
    assert kinds | {"broken": ""} == {
        "refused": "RateLimitError",
        "wrong": "BadRequestError",
        "unknownModel": "NotFoundError",
        "wrongKey": "AuthenticationError",
        "broken": "",
    }
    assert kinds["broken"] in ("APIStatusError", "InternalServerError")
    assert "Did you mean 'small'" in results["unknownModel"]["message"]
    assert "the connection was reset" in results["broken"]["message"]


def test_how_to_is_true(clients: Clients, shown: Shown, tmp_path: Path) -> None:
    """What a user copies from docs/howto/connect-programs.md works as it stands."""
    said = clients.run("anthropic", tmp_path, "-c", shown.take("docs/howto/connect-programs.md"))

    assert said.startswith("Good day to you.")
