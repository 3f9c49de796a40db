"""The command `llm`, with both of its interfaces (chat and Responses)."""

import subprocess
from pathlib import Path

import pytest

from tests.clients import environments
from tests.integration.gateway.clients.conftest import Clients
from tests.integration.gateway.conftest import Json
from tests.shown import Shown

EXTENDED_INPUTS = [
    "tests/clients/llm/*",
    "docs/howto/connect-programs.md",
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


@pytest.fixture(scope="module")
def results(clients: Clients, tmp_path_factory: pytest.TempPathFactory) -> Json:
    return clients.results("llm", tmp_path_factory.mktemp("llm"))


@pytest.mark.parametrize("interface", INTERFACES)
def test_command_understands_every_answer(results: Json, interface: str) -> None:
    """Two turns as streams, a whole answer, two calls at once with their results, a picture."""
    found = results[interface]

    assert found["twoTurns"] == ["Good day to you."] * 2
    assert found["whole"] == "Good day to you."
    assert found["tools"] == {"results": ["12:00 in UTC", "12:00 in CET"], "then": "It is noon."}
    assert found["picture"] == "Good day to you."


@pytest.mark.parametrize("interface", INTERFACES)
def test_schema_holds_the_real_model(results: Json, interface: str) -> None:
    """`--schema` prints an object that matches."""
    assert 3 <= len(results[interface]["river"]["name"]) <= 12


@pytest.mark.parametrize("interface", INTERFACES)
def test_command_tells_why_it_failed(results: Json, interface: str) -> None:
    """The message of the gateway is what a person sees."""
    found = results[interface]

    failures = [found[name] for name in ("refused", "wrong", "unknownModel", "wrongKey", "broken")]
    assert [failure["code"] for failure in failures] == [1] * 5
    assert "429 - Too many." in found["refused"]["message"]
    assert "400 - That is no request." in found["wrong"]["message"]
    assert "Did you mean 'small'" in found["unknownModel"]["message"]
    assert "Incorrect API key" in found["wrongKey"]["message"]
    assert "the connection was reset" in found["broken"]["message"]


def test_interrupts_stop_the_model(results: Json, clients: Clients) -> None:
    """One of each interface."""
    assert all(results[name]["interrupted"] for name in INTERFACES)
    clients.model.wait_until(lambda model: model.aborted == len(INTERFACES), timeout=60)


def test_how_to_is_true(clients: Clients, shown: Shown, tmp_path: Path) -> None:
    """The lines that a user copies from docs/howto/connect-programs.md work unchanged."""
    programs = environments.python_of("llm").parent
    environment = clients.environment(tmp_path)
    environment["PATH"] = f"{programs}:{environment['PATH']}"

    ended = subprocess.run(
        ["bash", "-euc", shown.take("docs/howto/connect-programs.md")],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.split("\n") == ["Good day to you.", "Good day to you.", ""]
