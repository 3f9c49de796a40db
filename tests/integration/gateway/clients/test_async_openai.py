"""The Rust client async-openai, with both of its interfaces (Responses and chat)."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.acceptance.fences import fences
from tests.integration.gateway.clients.checks import (
    assert_streams_stopped,
    assert_words_of_the_gateway,
)
from tests.integration.gateway.clients.conftest import Clients
from tests.integration.gateway.clients.programs import compiled
from tests.integration.gateway.conftest import Json
from tests.shown import Shown

EXTENDED_INPUTS = [
    "tests/clients/async-openai/*",
    "docs/howto/connect-programs.md",
    "tests/integration/gateway/clients/checks.py",
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

INTERFACES = ("responses", "chat")
PAGE = "docs/howto/connect-programs.md"


def run(program: Path, clients: Clients, home: Path) -> str:
    ended = subprocess.run(
        [program], env=clients.environment(home), capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def programs() -> Path:
    """The folder with the compiled programs."""
    [shown] = [
        block for block in fences(Path(PAGE)) if "test_async_openai.py" in (block.elsewhere or "")
    ]
    return compiled("async-openai", howto=shown.body)


@pytest.fixture(scope="module")
def results(clients: Clients, programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Json:
    """The results of every case, by interface."""
    home = tmp_path_factory.mktemp("home")
    found: Json = json.loads(run(programs / "conformance", clients, home))
    return found


@pytest.mark.parametrize("interface", INTERFACES)
def test_client_understands_every_answer(results: Json, interface: str) -> None:
    """Two turns, a stream, two calls at once with their results, a picture, and a retry."""
    found = results[interface]

    assert found["twoTurns"] == ["Good day to you."] * 2
    assert found["streamed"] == {
        "words": 4, "text": "Good day to you.", "output": 4, "finish": found["streamed"]["finish"],
    }  # fmt: skip
    assert found["tools"] == {"zones": ["UTC", "CET"], "then": "It is noon."}
    assert found["picture"] == "Good day to you."
    assert found["retried"] == "Now."


def test_client_lists_models_and_embeds(results: Json) -> None:
    """Each text has its vector."""
    assert results["models"] == ["auto", "small", "smollm2"]
    assert results["embeddings"] == [[1.0, 0.5], [2.0, 0.5]]


@pytest.mark.parametrize("interface", INTERFACES)
def test_client_holds_the_real_model_to_a_schema(results: Json, interface: str) -> None:
    """The grammar makes even the smallest model keep to it."""
    river = results[interface]["schema"]

    assert river.keys() == {"name"}
    assert 3 <= len(river["name"]) <= 12


@pytest.mark.parametrize("interface", INTERFACES)
def test_client_reports_why_a_request_failed(results: Json, interface: str) -> None:
    """By status, code and message."""
    found = results[interface]

    names = ("refused", "wrong", "unknownModel", "wrongKey")
    assert [found[name]["status"] for name in names] == [429, 400, 404, 401]
    codes = [found[name]["code"] for name in names]
    assert codes == ["rate_limited", None, "model_not_found", "invalid_api_key"]
    assert_words_of_the_gateway(found)


def test_abandoned_streams_stop_the_model(results: Json, clients: Clients) -> None:
    """One of each interface."""
    assert_streams_stopped(results, clients, INTERFACES)


def test_how_to_is_true(clients: Clients, programs: Path, shown: Shown, tmp_path: Path) -> None:
    """The program that a user copies from docs/howto/connect-programs.md works unchanged."""
    assert shown.take(PAGE)
    assert run(programs / "page", clients, tmp_path) == "Good day to you.\n"
