"""LiteLLM as a client: many programs that speak to "any provider" speak through it."""

import json
from pathlib import Path

import pytest

from tests.integration.gateway.clients.conftest import Clients
from tests.integration.gateway.conftest import Json
from tests.shown import Shown

EXTENDED_INPUTS = [
    "tests/clients/litellm/*",
    "docs/howto/connect-programs.md",
    "tests/integration/gateway/clients/conftest.py",
    "moe_gateway/requests/pipeline.py",
    "moe_gateway/errors.py",
    "moe_gateway/responses/*",
    "hearth/openai_api/*",
]
pytestmark = pytest.mark.extended

PICTURE = "data:image/png;base64,iVBORw0KGgo="
ZONES = [{"zone": "UTC"}, {"zone": "CET"}]


@pytest.fixture(scope="module")
def results(clients: Clients, tmp_path_factory: pytest.TempPathFactory) -> Json:
    return clients.results("litellm", tmp_path_factory.mktemp("litellm"))


def test_litellm_understands_every_answer(results: Json, clients: Clients) -> None:
    """Each case is something that a program does through it."""
    assert results["whole"] == "Good day to you."
    assert results["streamed"] == {"words": ["Good ", "day ", "to ", "you."], "completion": 4}
    assert results["tools"] == {"calls": ZONES, "streamed": ZONES, "then": "It is noon."}
    assert results["embeddings"] == [2, 2]
    assert results["completion"] == "Good day to you."
    assert results["picture"] == "Good day to you."
    assert any(PICTURE in json.dumps(one.body) for one in clients.model.requests)
    assert results["retried"] == "Now."
    clients.model.wait_until(lambda model: model.aborted == 1, timeout=60)


def test_litellm_reads_responses_and_models(results: Json) -> None:
    """The newer endpoint, and what it may be asked for."""
    assert results["responses"] == {"whole": "Good day to you.", "streamed": "Good day to you."}
    assert results["models"] == ["auto", "small", "smollm2"]


def test_litellm_holds_the_real_model_to_a_schema(results: Json) -> None:
    """It sends the schema of a class and the answer can be read into that class."""
    assert results["river"].keys() == {"name", "continent", "length_km"}


def test_litellm_raises_its_class_for_each_failure(results: Json) -> None:
    """Its fallbacks are chosen by these classes."""
    names = ("refused", "unknownModel", "wrongKey", "broken")

    assert {name: results[name]["kind"] for name in names} == {
        "refused": "RateLimitError",
        "unknownModel": "NotFoundError",
        "wrongKey": "AuthenticationError",
        "broken": "MidStreamFallbackError",
    }
    assert "Did you mean 'small'" in results["unknownModel"]["message"]
    assert "the connection was reset" in results["broken"]["message"]


def test_how_to_is_true(clients: Clients, shown: Shown, tmp_path: Path) -> None:
    """What a user copies from docs/howto/connect-programs.md works as it stands."""
    said = clients.run("litellm", tmp_path, "-c", shown.take("docs/howto/connect-programs.md"))

    assert said.startswith("Good day to you.")
