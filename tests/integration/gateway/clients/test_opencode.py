"""OpenCode, the program itself, against a scripted model and a real llama-server."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.integration.gateway.clients.conftest import Clients
from tests.integration.gateway.clients.programs import CLOCK, opencode
from tests.integration.gateway.clients.real import SECONDS, Coder
from tests.shown import Shown

EXTENDED_INPUTS = [
    "tests/clients/coding/*",
    "docs/howto/connect-programs.md",
    "tests/integration/gateway/clients/conftest.py",
    "tests/integration/gateway/clients/programs.py",
    "tests/integration/gateway/clients/real.py",
    "tests/support/shallow_model.py",
    "moe_gateway/requests/pipeline.py",
    "moe_gateway/errors.py",
    "moe_gateway/routing/turns.py",
    "hearth/openai_api/*",
]
pytestmark = pytest.mark.extended

RUN = ("run", "--auto")
RESUME = (*RUN, "--continue")


def conversation(clients: Clients) -> list[dict[str, Any]]:
    """The messages of the last request of a conversation. OpenCode also requests a title."""
    bodies = [request.body for request in clients.model.requests]
    found: list[dict[str, Any]] = next(b["messages"] for b in reversed(bodies) if "tools" in b)
    return found


def test_two_turns(clients: Clients, tmp_path: Path) -> None:
    """The second turn sends the first one, too."""
    program = opencode(clients.url, tmp_path)

    first = program.run(*RUN, "good day")
    second = program.run(*RESUME, "good day once more")

    assert (first, second) == ("Good day to you.", "Good day to you.")
    sent = conversation(clients)
    assert [one["role"] for one in sent] == ["system", "user", "assistant", "user"]
    assert sent[2]["content"] == "Good day to you."


def test_tool_runs_and_its_result_is_answered(clients: Clients, tmp_path: Path) -> None:
    """The model calls the shell; its output reaches the model; one more turn goes on."""
    call = {"command": "cat clock.txt", "description": "Read the clock"}
    clients.model.when("with the shell").call_tool("bash", call)
    program = opencode(clients.url, tmp_path)

    said = program.run(*RUN, "look at the clock with the shell")
    sent = conversation(clients)
    again = program.run(*RESUME, "good day")

    assert said.endswith("It is noon.")
    assert again == "Good day to you."
    assert CLOCK in next(one["content"] for one in sent if one["role"] == "tool")


@pytest.mark.parametrize(
    ("words", "message"),
    [("status 400", "The test says no."), ("break", "the connection was reset")],
)
def test_failure_is_shown(clients: Clients, tmp_path: Path, words: str, message: str) -> None:
    """With the gateway's own words."""
    ended = opencode(clients.url, tmp_path).ended(*RUN, words)

    assert message in ended.stdout + ended.stderr


def test_unknown_model_is_shown_as_such(clients: Clients, tmp_path: Path) -> None:
    """A mistyped name is the most common mistake of a new setup."""
    ended = opencode(clients.url, tmp_path, "smal").ended(*RUN, "good day")

    assert "Did you mean 'small'" in ended.stdout + ended.stderr


def test_interrupt_stops_the_model(clients: Clients, tmp_path: Path) -> None:
    """Ctrl-C in OpenCode ends the request at the server."""
    before = clients.model.aborted
    process = opencode(clients.url, tmp_path).begin(*RUN, "a story without end")
    clients.model.wait_until(lambda model: model.running > 0, timeout=60)

    process.send_signal(signal.SIGINT)

    process.wait(60)
    clients.model.wait_until(lambda model: model.running == 0 and model.aborted > before)
    assert "aborted" in {request.outcome for request in clients.model.requests}


@pytest.mark.timeout(2 * SECONDS)
def test_two_turns_with_a_real_server(coder: Coder, tmp_path: Path) -> None:
    """Its strict template takes the turns, and of the second prompt nearly all is cached."""
    program = opencode(coder.url, tmp_path, "smollm2")

    program.run(*RUN, "--format", "json", "good day", seconds=SECONDS)
    tokens = tokens_of(program.run(*RESUME, "--format", "json", "good day", seconds=SECONDS))

    cached = tokens["cache"]["read"]
    assert cached > 5000
    assert tokens["input"] <= 0.05 * (tokens["input"] + cached), tokens


def tokens_of(lines: str) -> dict[str, Any]:
    """The tokens of the last step, which OpenCode prints as an event."""
    steps = [one for one in map(json.loads, lines.splitlines()) if one["type"] == "step_finish"]
    tokens: dict[str, Any] = steps[-1]["part"]["tokens"]
    return tokens


def test_how_to_is_true(clients: Clients, tmp_path: Path, shown: Shown) -> None:
    """The lines that a user copies from docs/howto/connect-programs.md work unchanged."""
    program = opencode(clients.url, tmp_path)
    page = "docs/howto/connect-programs.md"
    own = shown.take(page).replace("http://127.0.0.1:8080", clients.url)
    (tmp_path / "opencode.json").write_text(own)
    program.command = ["bash", "-euc"]

    said = program.run(shown.take(page))

    assert said == "Good day to you.\nGood day to you."
