"""The AI SDK, with its default provider (Responses) and the one for compatible servers (chat)."""

import json
import subprocess

import pytest

from tests.clients import environments
from tests.integration.gateway.clients.conftest import Clients
from tests.integration.gateway.clients.programs import installed
from tests.integration.gateway.conftest import Json
from tests.shown import Shown

EXTENDED_INPUTS = [
    "tests/clients/ai-sdk/*",
    "docs/howto/connect-programs.md",
    "tests/integration/gateway/clients/conftest.py",
    "tests/integration/gateway/clients/programs.py",
    "moe_gateway/requests/pipeline.py",
    "moe_gateway/errors.py",
    "moe_gateway/requests/translated.py",
    "moe_gateway/routing/turns.py",
    "moe_gateway/responses/*",
    "hearth/openai_api/*",
]
pytestmark = pytest.mark.extended

PROJECT = environments.SOURCE / "ai-sdk"
PROVIDERS = ("openai", "compatible")


def run(clients: Clients, program: list[str]) -> str:
    folder = installed(PROJECT)
    ended = subprocess.run(
        program, cwd=folder, env=clients.environment(folder), capture_output=True, text=True,
        timeout=600, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def results(clients: Clients) -> Json:
    """What each provider made of every case."""
    found: Json = json.loads(run(clients, ["node", "conformance.mjs"]))
    return found


@pytest.mark.parametrize("provider", PROVIDERS)
def test_provider_understands_every_answer(results: Json, provider: str) -> None:
    """Two turns, a stream, two calls at once with their results, a turn after them, a picture."""
    found = results[provider]

    assert found["twoTurns"] == ["Good day to you."] * 2
    assert found["streamed"] == {
        "words": 4, "text": "Good day to you.", "output": 4, "finish": "stop",
    }  # fmt: skip
    assert found["tools"] == {
        "text": "It is noon.", "zones": ["UTC", "CET"], "after": "Good day to you.",
    }  # fmt: skip
    assert found["picture"] == "Good day to you."
    assert found["retried"] == "Now."


@pytest.mark.parametrize("provider", PROVIDERS)
def test_provider_speaks_with_the_real_model(results: Json, provider: str) -> None:
    """An answer held to a schema, and two turns of a conversation."""
    assert 3 <= len(results[provider]["schema"]["name"]) <= 12
    assert all(results[provider]["realTurns"]), results[provider]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_provider_tells_why_it_failed(results: Json, provider: str) -> None:
    """By status and message; a stream that breaks off is an error, too."""
    found = results[provider]

    assert (found["refused"]["status"], found["refused"]["message"]) == (429, "Too many.")
    assert found["unknownModel"]["status"] == 404
    assert "Did you mean 'small'" in found["unknownModel"]["message"]
    assert "the connection was reset" in found["broken"]


def test_streams_that_are_left_stop_the_model(results: Json, clients: Clients) -> None:
    """One of each provider."""
    assert all(results[name]["abandoned"] for name in PROVIDERS)
    clients.model.wait_until(lambda model: model.aborted == len(PROVIDERS), timeout=60)


def test_how_to_is_true(clients: Clients, shown: Shown) -> None:
    """What a user copies from docs/howto/connect-programs.md works as it stands."""
    block = shown.take("docs/howto/connect-programs.md")

    assert run(clients, ["bash", "-euc", block]) == "Good day to you.\n"
