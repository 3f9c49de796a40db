"""Ollama's official client: programs that are written for Ollama speak through it."""

from pathlib import Path

import pytest

from tests.integration.gateway.clients.conftest import Clients
from tests.integration.gateway.conftest import Json
from tests.shown import Shown

EXTENDED_INPUTS = [
    "tests/clients/ollama/*",
    "docs/howto/connect-programs.md",
    "tests/integration/gateway/clients/conftest.py",
    "moe_gateway/requests/pipeline.py",
    "moe_gateway/errors.py",
    "moe_gateway/requests/translated.py",
    "moe_gateway/api/ollama/*",
    "hearth/openai_api/*",
]
pytestmark = pytest.mark.extended

ZONES = [{"zone": "UTC"}, {"zone": "CET"}]
PAGE = "docs/howto/connect-programs.md"


@pytest.fixture(scope="module")
def results(clients: Clients, tmp_path_factory: pytest.TempPathFactory) -> Json:
    return clients.results("ollama", tmp_path_factory.mktemp("ollama"))


def test_client_understands_every_answer(results: Json, clients: Clients) -> None:
    """Each case is something that a program does through it."""
    said = "Good day to you."
    assert results["whole"] == {"text": said, "done": "stop", "output": 4, "timed": True}
    assert results["streamed"] == {
        "words": ["Good ", "day ", "to ", "you.", ""],
        "done": "stop", "output": 4,
    }  # fmt: skip
    assert results["tools"] == {"calls": ZONES, "streamed": ZONES, "then": "It is noon."}
    assert results["picture"] == [said, said]
    assert results["generated"] == {
        "whole": said, "streamed": said, "raw": said, "loaded": "load", "unloaded": "unload",
    }  # fmt: skip
    assert results["vectors"] == {"many": 2, "same": True, "old": True}
    assert results["models"] == {
        "tags": ["auto", "small", "smollm2"],
        "loaded": ["small", "smollm2"],
        "can": ["completion", "tools", "embedding"],
    }
    clients.model.wait_until(lambda model: model.aborted == 1, timeout=60)


def test_client_speaks_with_the_real_model(results: Json) -> None:
    """Held to a schema, and cut short at its limit."""
    assert results["river"].keys() == {"name"}
    assert results["real"] == {"done": ["length", "length"], "output": [3, 3]}


def test_client_raises_each_failure(results: Json) -> None:
    """With its status, and a message that says what to do."""
    names = ("refused", "wrong", "unknownModel", "wrongKey", "pulled")

    assert {name: results[name]["status"] for name in names} == {
        "refused": 429, "wrong": 400, "unknownModel": 404, "wrongKey": 401, "pulled": 403,
    }  # fmt: skip
    assert "Did you mean 'small'" in results["unknownModel"]["message"]
    assert "the connection was reset" in results["broken"]["message"]
    assert "hearth models" in results["pulled"]["message"]


def test_how_to_is_true(clients: Clients, shown: Shown, tmp_path: Path) -> None:
    """What a user copies from docs/howto/connect-programs.md works as it stands."""
    said = clients.run("ollama", tmp_path, "-c", shown.take(PAGE))

    assert said.startswith("Good day to you.")
