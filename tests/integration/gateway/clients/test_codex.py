"""Codex, the program itself, against a scripted model and a real llama-server."""

import json
import signal
from pathlib import Path

import pytest

from tests.integration.gateway.clients.conftest import Clients
from tests.integration.gateway.clients.programs import (
    CLOCK,
    codex,
    picture,
    pictures_in,
    with_silence,
)
from tests.integration.gateway.clients.real import SECONDS, Coder
from tests.integration.gateway.conftest import KEY
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
    "moe_gateway/requests/translated.py",
    "moe_gateway/routing/turns.py",
    "moe_gateway/responses/*",
    "hearth/openai_api/*",
]
pytestmark = pytest.mark.extended

EXEC = ("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")
RESUME = (*EXEC[:1], "resume", "--last", *EXEC[1:])


def test_two_turns(clients: Clients, tmp_path: Path) -> None:
    """The second one sends the first one, too; all that is system is one message."""
    program = codex(clients.url, tmp_path)

    first = program.run(*EXEC, "good day")
    second = program.run(*RESUME, "good day once more")

    assert (first, second) == ("Good day to you.", "Good day to you.")
    sent = clients.model.requests[-1].body["messages"]
    assert [one["role"] for one in sent] == ["system", "user", "assistant", "user"]
    assert sent[2]["content"] == "Good day to you."


def test_tool_runs_and_its_result_is_answered(clients: Clients, tmp_path: Path) -> None:
    """The model calls a command; what that said reaches the model; one more turn goes on."""
    program = codex(clients.url, tmp_path)

    said = program.run(*EXEC, "look at the clock with a command")
    sent = clients.model.requests[-1].body["messages"]
    again = program.run(*RESUME, "good day")

    assert (said, again) == ("It is noon.", "Good day to you.")
    assert CLOCK in next(one["content"] for one in sent if one["role"] == "tool")


def test_answer_keeps_to_a_schema(clients: Clients, tmp_path: Path) -> None:
    """Codex sends the schema as the format of the response."""
    schema = {
        "type": "object", "properties": {"greeting": {"type": "string"}},
        "required": ["greeting"], "additionalProperties": False,
    }  # fmt: skip
    (tmp_path / "schema.json").write_text(json.dumps(schema))

    codex(clients.url, tmp_path).run(*EXEC, "--output-schema", "schema.json", "good day")

    form = clients.model.requests[-1].body["response_format"]
    assert form["json_schema"]["schema"] == schema


def test_picture_reaches_the_model(clients: Clients, tmp_path: Path) -> None:
    """Codex attaches a file to the first message."""
    content = picture(tmp_path)

    said = codex(clients.url, tmp_path).run(*EXEC, "good day", "--image", "red.png")

    assert said == "Good day to you."
    assert pictures_in(clients.model.requests[-1].body["messages"]) == [content]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("refuse", "429 Too Many Requests"),
        ("status 400", "The test says no."),
        ("break", "the connection was reset"),
    ],
)
def test_failure_is_shown(clients: Clients, tmp_path: Path, words: str, message: str) -> None:
    """With the gateway's own words; a 429 by its status."""
    ended = codex(clients.url, tmp_path).ended(*EXEC, words)

    assert ended.returncode == 1
    assert message in ended.stderr


def test_unknown_model_is_shown_as_such(clients: Clients, tmp_path: Path) -> None:
    """A mistyped name is the most common mistake of a new setup."""
    ended = codex(clients.url, tmp_path, "smal").ended(*EXEC, "good day")

    assert "Did you mean 'small'" in ended.stderr


def test_interrupt_stops_the_model(clients: Clients, tmp_path: Path) -> None:
    """Ctrl-C in Codex ends the request at the server."""
    before = clients.model.aborted
    process = codex(clients.url, tmp_path).begin(*EXEC, "a story without end")
    clients.model.wait_until(lambda model: model.running > 0)

    process.send_signal(signal.SIGINT)

    process.wait(60)
    clients.model.wait_until(lambda model: model.aborted > before)
    assert clients.model.requests[-1].outcome == "aborted"


@pytest.mark.timeout(2 * SECONDS)
def test_two_turns_with_a_real_server(coder: Coder, tmp_path: Path) -> None:
    """Its strict template takes the turns, and of the second prompt nearly all is cached."""
    program = codex(coder.url, tmp_path, "smollm2")

    first = usage_of(program.run(*EXEC, "--json", "good day", seconds=SECONDS))
    both = usage_of(program.run(*RESUME, "--json", "good day again", seconds=SECONDS))

    whole, cached = (both[key] - first[key] for key in ("input_tokens", "cached_input_tokens"))
    assert whole > 5000
    assert whole - cached <= 0.05 * whole


def usage_of(lines: str) -> dict[str, int]:
    """The tokens of a whole session until now, which Codex prints after a turn."""
    events = map(json.loads, lines.splitlines())
    return next(event["usage"] for event in events if event["type"] == "turn.completed")


def test_how_to_is_true(clients: Clients, tmp_path: Path, shown: Shown) -> None:
    """What a user copies from docs/howto/connect-programs.md works as it stands."""
    program = codex(clients.url, tmp_path)
    page = "docs/howto/connect-programs.md"
    own = shown.take(page).replace("http://127.0.0.1:8080", clients.url)
    (tmp_path / ".codex" / "config.toml").write_text(with_silence(own.replace('"auto"', '"small"')))
    del program.environment["HEARTH_KEY"]
    program.environment["OPENAI_API_KEY"] = KEY
    program.command = ["bash", "-euc"]

    said = program.run(shown.take(page))

    assert said == "Good day to you.\nGood day to you."
