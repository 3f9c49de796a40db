"""OpenCode, the program itself, against a scripted model and a real llama-server."""

import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from hearth.models.catalogue import FALLBACK
from tests.integration.gateway.clients.conftest import Clients
from tests.integration.gateway.clients.programs import CLOCK, opencode, picture, pictures_in
from tests.integration.gateway.clients.real import (
    CONTEXT,
    END,
    LAYERS,
    SECONDS,
    TEMPLATE,
    llama_server,
    smollm2,
)
from tests.integration.gateway.conftest import Lab
from tests.shown import Shown
from tests.support.shallow_model import keep_layers

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


def test_picture_reaches_the_model(clients: Clients, tmp_path: Path) -> None:
    """OpenCode attaches a file if its configuration states that the model accepts pictures."""
    content = picture(tmp_path)

    said = opencode(clients.url, tmp_path).run(*RUN, "good day", "--file", "red.png")

    assert said == "Good day to you."
    assert pictures_in(conversation(clients)) == [content]


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


@pytest.fixture
def lenient(tmp_path: Path) -> Iterator[str]:
    """A gateway with a real server whose template does not require alternating roles: OpenCode
    leaves the empty answer of this model out of the second turn."""
    model, template = tmp_path / "model.gguf", tmp_path / "chat.jinja"
    keep_layers(smollm2(), model, LAYERS)
    _checks, _end, rest = TEMPLATE.read_text().partition("{%- endfor %}\n")
    template.write_text(rest)
    more = ("--chat-template-file", str(template), "--logit-bias", END)
    with llama_server(model, tmp_path, *more) as server, ExitStack() as stack:
        expert = {"url": server, "expert": FALLBACK, "slots": 1, "context": CONTEXT}
        gateway = Lab(stack, tmp_path).gateway(
            expert, first_byte_timeout=SECONDS, idle_timeout=SECONDS
        )
        yield str(gateway.base_url).rstrip("/")


@pytest.mark.timeout(2 * SECONDS)
def test_two_turns_with_a_real_server(lenient: str, tmp_path: Path) -> None:
    """Nearly all of the second prompt is cached."""
    home = tmp_path / "home"
    home.mkdir()
    program = opencode(lenient, home, FALLBACK)
    events = ("--format", "json")

    # Without a title, OpenCode asks this server with one slot for one between the turns.
    program.run(*RUN, "--title", "day", *events, "good day", seconds=SECONDS)
    tokens = tokens_of(program.run(*RESUME, *events, "good day again", seconds=SECONDS))

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
