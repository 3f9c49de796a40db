"""LangChain (langchain-openai), as its users write it, in an environment of its own."""

import json
from pathlib import Path

import pytest

from tests.integration.gateway.clients.conftest import Clients
from tests.integration.gateway.conftest import Json
from tests.shown import Shown

PICTURE = "data:image/png;base64,iVBORw0KGgo="
ZONES = [{"zone": "UTC"}, {"zone": "CET"}]


@pytest.fixture(scope="module")
def results(clients: Clients, tmp_path_factory: pytest.TempPathFactory) -> Json:
    return clients.results("langchain", tmp_path_factory.mktemp("langchain"))


def test_langchain_understands_every_answer(results: Json, clients: Clients) -> None:
    """Chains and agents are built on these calls."""
    assert results["whole"] == "Good day to you."
    assert results["streamed"] == {"words": ["Good ", "day ", "to ", "you."], "completion": 4}
    assert results["tools"] == {"calls": ZONES, "streamed": ZONES, "then": "It is noon."}
    assert results["embeddings"] == [2, 2]
    assert results["completion"] == "Good day to you."
    assert results["picture"] == "Good day to you."
    assert any(PICTURE in json.dumps(one.body) for one in clients.model.requests)
    assert results["retried"] == "Now."
    clients.model.wait_until(lambda model: model.aborted == 1, timeout=60)


def test_langchain_reads_responses(results: Json) -> None:
    """The newer endpoint, whole, as events and with tools."""
    assert results["responses"] == {
        "whole": "Good day to you.", "streamed": "Good day to you.", "calls": ZONES,
    }  # fmt: skip


def test_langchain_holds_the_real_model_to_a_schema(results: Json) -> None:
    """`with_structured_output` is why many use it: the grammar makes a small model keep to it."""
    assert results["river"].keys() == {"name", "continent", "length_km"}


def test_langchain_raises_the_official_classes(results: Json) -> None:
    """Programs catch those of the official client."""
    assert "RateLimitError" in results["refused"]["kinds"]
    assert "NotFoundError" in results["unknownModel"]["kinds"]
    assert "AuthenticationError" in results["wrongKey"]["kinds"]
    assert "Did you mean 'small'" in results["unknownModel"]["message"]
    assert results["broken"] == "APIError"


def test_how_to_is_true(clients: Clients, shown: Shown, tmp_path: Path) -> None:
    """What a user copies from docs/howto/connect-programs.md works as it stands."""
    said = clients.run("langchain", tmp_path, "-c", shown.take("docs/howto/connect-programs.md"))

    assert said.startswith("Good day to you.")
