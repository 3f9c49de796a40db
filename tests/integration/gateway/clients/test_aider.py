"""Aider, the pair programmer, in its own code: it speaks through the LiteLLM that it pins."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.clients import environments
from tests.integration.gateway.clients.conftest import Clients
from tests.integration.gateway.clients.programs import picture, pictures_in
from tests.integration.gateway.conftest import Json
from tests.shown import Shown

EXTENDED_INPUTS = [
    "tests/clients/aider/*",
    "docs/howto/connect-programs.md",
    "tests/integration/gateway/clients/conftest.py",
    "moe_gateway/requests/pipeline.py",
    "moe_gateway/errors.py",
    "moe_gateway/responses/*",
    "hearth/openai_api/*",
]
pytestmark = pytest.mark.extended


@pytest.fixture(scope="module")
def results(clients: Clients, tmp_path_factory: pytest.TempPathFactory) -> Json:
    return clients.results("aider", tmp_path_factory.mktemp("aider"))


@pytest.mark.parametrize("way", ["streamed", "whole"])
def test_aider_edits_a_file_as_the_model_says(results: Json, way: str) -> None:
    """A session: the file goes out, the edit comes back and is applied."""
    assert results[way]["file"] == 'print("hello, town")\n'
    assert results[way]["edited"] == ["hello.py"]


def test_aider_reads_the_function_that_it_asked_for(results: Json) -> None:
    """Older edit formats are functions that the model has to call."""
    assert results["called"][0] == {"zone": "UTC"}


def test_aider_tries_again_while_a_model_loads(results: Json) -> None:
    """Its own retries end when we say that it is ready."""
    assert results["retried"] == "Now."


def test_aider_shows_why_a_request_was_refused(results: Json) -> None:
    """Our message reaches the person through two layers of other people's code."""
    assert "That is no request." in results["wrong"]


def test_aider_applies_no_half_of_an_edit(results: Json) -> None:
    """It shows why the answer ended, asks again by itself, and leaves the file alone."""
    assert "the connection was reset" in results["broken"]["screen"]
    assert "Enough." in results["broken"]["screen"]
    assert results["broken"]["file"] == 'print("hello")\n'


def test_aider_stops_the_model_that_a_person_interrupts(results: Json, clients: Clients) -> None:
    """Ctrl-C at the first word: nobody waits for the others."""
    assert any("KeyboardInterrupt" in one for one in results["interrupted"])
    clients.model.wait_until(lambda model: model.aborted == 1, timeout=60)


def test_picture_reaches_the_model(clients: Clients, tmp_path: Path) -> None:
    """Aider adds the file to the chat if its metadata states that the model accepts pictures."""
    content = picture(tmp_path)
    metadata = {"openai/small": {"supports_vision": True, "mode": "chat"}}
    (tmp_path / ".aider.model.metadata.json").write_text(json.dumps(metadata))
    words = "aider --model openai/small --no-git --yes-always --message 'good day' red.png"

    said = in_shell(clients, tmp_path, words)

    assert "Good day to you." in said
    assert content in pictures_in(clients.model.requests[-1].body["messages"])


def test_how_to_is_true(clients: Clients, shown: Shown, tmp_path: Path) -> None:
    """The command line that a user copies from docs/howto/connect-programs.md edits the file."""
    (tmp_path / "hello.py").write_text('print("hello")\n')

    said = in_shell(clients, tmp_path, shown.take("docs/howto/connect-programs.md"))

    assert (tmp_path / "hello.py").read_text() == 'print("hello, town")\n', said


def in_shell(clients: Clients, home: Path, command: str) -> str:
    """Run a command of a user whose shell finds aider; return its output."""
    programs = environments.python_of("aider").parent
    environment = clients.environment(home)
    environment["PATH"] = f"{programs}:{environment['PATH']}"
    del environment["OPENAI_API_BASE"]
    ended = subprocess.run(
        ["bash", "-euc", command], cwd=home, env=environment, capture_output=True, text=True,
        timeout=240, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout
