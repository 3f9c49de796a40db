"""Claude Code, the program itself, against a scripted model and a real llama-server."""

import json
import signal
from pathlib import Path

import pytest

from tests.integration.gateway.clients.conftest import Clients
from tests.integration.gateway.clients.programs import CLOCK, claude, picture, pictures_in
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
    "moe_gateway/api/anthropic/*",
    "hearth/openai_api/*",
]
pytestmark = pytest.mark.extended


def last_words(messages: list[dict[str, str]], role: str) -> str:
    return next(one["content"] for one in reversed(messages) if one["role"] == role)


def test_two_turns(clients: Clients, tmp_path: Path) -> None:
    """The second one sends the first one, too; no turn of the system stands between the others."""
    program = claude(clients.url, tmp_path)

    first = program.run("-p", "good day")
    second = program.run("-p", "--continue", "good day once more")

    assert (first, second) == ("Good day to you.", "Good day to you.")
    sent = clients.model.requests[-1].body["messages"]
    assert [one["role"] for one in sent] == ["system", "user", "assistant", "user"]
    assert sent[2]["content"] == "Good day to you."
    assert "x-anthropic-billing-header" not in json.dumps(sent)


def test_tool_runs_and_its_result_is_answered(clients: Clients, tmp_path: Path) -> None:
    """The model calls the shell; what that said reaches the model; one more turn goes on."""
    program = claude(clients.url, tmp_path)

    said = program.run("-p", "look at the clock with Bash", "--allowedTools", "Bash")
    result = last_words(clients.model.requests[-1].body["messages"], "tool")
    again = program.run("-p", "--continue", "good day")

    assert (said, result, again) == ("It is noon.", CLOCK, "Good day to you.")


def test_picture_reaches_the_model(clients: Clients, tmp_path: Path) -> None:
    """The model reads the file with a tool, whose result is the picture."""
    content = picture(tmp_path)
    call = {"file_path": str(tmp_path / "red.png")}
    clients.model.when("look at the picture").call_tool("Read", call)

    said = claude(clients.url, tmp_path).run("-p", "look at the picture")

    assert said
    assert pictures_in(clients.model.requests[-1].body["messages"]) == [content]


def test_answer_keeps_to_a_schema(clients: Clients, tmp_path: Path) -> None:
    """Claude Code asks for it by a tool that the model has to call."""
    call = {"greeting": "Good day."}
    clients.model.when("greet by schema").call_tool("StructuredOutput", call)
    schema = {"type": "object", "properties": {"greeting": {"type": "string"}}}
    program = claude(clients.url, tmp_path)

    said = program.run(
        "-p", "greet by schema", "--output-format", "json", "--json-schema", json.dumps(schema)
    )

    assert json.loads(said)["structured_output"] == call


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("refuse", "429"),
        ("status 400", "The test says no."),
        ("break", "the connection was reset"),
    ],
)
def test_failure_is_shown(clients: Clients, tmp_path: Path, words: str, message: str) -> None:
    """With the gateway's own words."""
    ended = claude(clients.url, tmp_path).ended("-p", words)

    assert ended.returncode == 1
    assert message in ended.stdout


def test_unknown_model_is_shown_as_such(clients: Clients, tmp_path: Path) -> None:
    """A mistyped name is the most common mistake of a new setup."""
    ended = claude(clients.url, tmp_path, ANTHROPIC_MODEL="smal").ended("-p", "good day")

    assert "issue with the selected model (smal)" in ended.stdout + ended.stderr


def test_interrupt_stops_the_model(clients: Clients, tmp_path: Path) -> None:
    """Ctrl-C in Claude Code ends the request at the server."""
    before = clients.model.aborted
    process = claude(clients.url, tmp_path).begin("-p", "a story without end")
    clients.model.wait_until(lambda model: model.running > 0)

    process.send_signal(signal.SIGINT)

    process.wait(60)
    clients.model.wait_until(lambda model: model.aborted > before)
    assert clients.model.requests[-1].outcome == "aborted"


@pytest.mark.timeout(2 * SECONDS)
def test_two_turns_with_a_real_server(coder: Coder, tmp_path: Path) -> None:
    """Its strict template takes the turns, and of the second prompt nearly all is cached."""
    program = claude(coder.url, tmp_path, ANTHROPIC_MODEL="smollm2")
    told = ("-p", "--output-format", "json")

    first = json.loads(program.run(*told, "good day", seconds=SECONDS))
    second = json.loads(program.run(*told, "--continue", "good day again", seconds=SECONDS))

    assert first["is_error"] is second["is_error"] is False
    usage = second["usage"]
    whole = usage["input_tokens"] + usage["cache_read_input_tokens"]
    assert usage["input_tokens"] <= 0.05 * whole, usage


def test_how_to_is_true(clients: Clients, tmp_path: Path, shown: Shown) -> None:
    """What a user copies from docs/howto/connect-programs.md works as it stands."""
    program = claude(clients.url, tmp_path)
    program.environment |= {"OPENAI_BASE_URL": f"{clients.url}/v1", "OPENAI_API_KEY": KEY}
    for name in ("ANTHROPIC_BASE_URL", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_MODEL"):
        del program.environment[name]
    program.command = ["bash", "-euc"]

    said = program.run(shown.take("docs/howto/connect-programs.md"))

    assert said == "Good day to you.\nGood day to you."
