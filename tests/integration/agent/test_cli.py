"""`hearth run`, `runs` and `plan`: with a running instance, and on the state directory itself."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest
import typer
from typer.testing import CliRunner, Result

from hearth.local.state.lock import InstanceLock
from hearth.service.state import Instance, RunningService, StateDir
from pipecatapp.cli import commands
from tests.integration.agent.conftest import House, follow

Hearth = Callable[..., Result]
VOLATILE = {"id", "run", "started", "ended", "seconds", "at", "caller"}

SUM = """
id: sum
inputs: {numbers: "list of integer", loud: {type: boolean, default: false}}
steps:
  - {id: now, use: time.now, with: {zone: UTC}}
outputs:
  total: "{{ inputs.numbers | sum }}"
  loud: "{{ inputs.loud }}"
"""
WRONG = "id: wrong\nsteps:\n  - id: a\n    use: time.noww\n"


@pytest.fixture(params=["instance", "ledger"])
def hearth(
    request: pytest.FixtureRequest, empty_house: House, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Hearth]:
    """The command, once with a running instance and once without one."""
    run = command(empty_house, monkeypatch)
    if request.param == "ledger":
        yield run
        return
    with empty_house.running():
        announce(empty_house)
        yield run


def command(house: House, monkeypatch: pytest.MonkeyPatch) -> Hearth:
    """The command on the state directory of a house."""
    for name, value in house.environment().items():
        monkeypatch.setenv(name, value)
    app = typer.Typer()
    commands(app)

    def run(*words: str) -> Result:
        return CliRunner().invoke(app, [*words, "--state-dir", str(house.state)])

    return run


def announce(house: House, services: Sequence[RunningService] = ()) -> None:
    """Write what `hearth up` writes about a running instance; this process stands for it."""
    state = StateDir(house.state)
    instance = Instance(
        pid=os.getpid(),
        started=datetime.now(UTC),
        web=house.address,
        api=f"{house.gateway}/v1",
        key_file=state.key_file,
        services=list(services),
    )
    state.instance_file.write_text(instance.model_dump_json(), encoding="utf-8")


def test_command_beside_a_starting_instance_says_that_it_starts(
    empty_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who waits a moment and tries again needs nothing else; a ledger "in use" frightens."""
    with InstanceLock(StateDir(empty_house.state)):
        listed = command(empty_house, monkeypatch)("runs")

    assert listed.exit_code == 1
    assert "is starting or stopping. Try again in a moment." in listed.stderr


@pytest.fixture
def sum_file(tmp_path: Path) -> str:
    path = tmp_path / "sum.yaml"
    path.write_text(SUM, encoding="utf-8")
    return str(path)


def test_run_prints_the_text_and_ends_with_0(hearth: Hearth, empty_house: House) -> None:
    """The shortest way from a question to an answer."""
    empty_house.model.when("hello").say("Good day.", pause=0.02)

    ended = hearth("run", "agent-turn", "--input", "text=hello")

    assert (ended.exit_code, ended.stdout, ended.stderr) == (0, "Good day.\n", "")


def test_run_goes_on_with_a_conversation(hearth: Hearth, empty_house: House) -> None:
    """The shell is a place to talk, too."""
    for text in ("I am Ada.", "Who am I?"):
        ended = hearth("run", "agent-turn", "-i", f"text={text}", "--conversation", "c-1")
        assert ended.exit_code == 0, ended.stderr

    asked = [m["content"] for m in empty_house.model.requests[1].body["messages"]]
    assert asked[-3:] == ["I am Ada.", "I am Ada.", "Who am I?"]


def test_run_of_a_file_prints_typed_outputs_as_json(hearth: Hearth, sum_file: str) -> None:
    """A script reads them; numbers stay numbers."""
    ended = hearth("run", sum_file, "-i", "numbers=[1, 2, 39]", "-i", "loud=yes", "--json")

    told = json.loads(ended.stdout)
    assert (ended.exit_code, set(told)) == (0, {"run", "status", "outputs"})
    assert (told["status"], told["outputs"]) == ("done", {"total": 42, "loud": True})


def test_failed_run_ends_with_1_and_the_reason(hearth: Hearth, empty_house: House) -> None:
    """A script must not take an empty answer for one."""
    empty_house.model.when("hello").refuse(503, "no expert is healthy")

    plain = hearth("run", "agent-turn", "-i", "text=hello")
    as_json = hearth("run", "agent-turn", "-i", "text=hello", "--json")

    assert (plain.exit_code, as_json.exit_code, plain.stdout) == (1, 1, "")
    assert "no expert is healthy" in plain.stderr
    told = json.loads(as_json.stdout)
    assert (told["status"], told["outputs"]) == ("failed", {})
    assert "no expert is healthy" in told["error"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "agent-trun"], "Did you mean 'agent-turn'?"),
        (["plan", "agent-trun"], "Did you mean 'agent-turn'?"),
        (["run", "agent-turn", "-i", "txt=x"], "Did you mean 'text'?"),
        (["run", "/nowhere/x.yaml"], "/nowhere/x.yaml cannot be read"),
    ],
)
def test_unknown_name_file_or_input_ends_with_2(
    hearth: Hearth, words: list[str], said: str
) -> None:
    """2 says: what you wrote is wrong. Nothing was started."""
    ended = hearth(*words)

    assert (ended.exit_code, ended.stdout) == (2, "")
    assert said in ended.stderr
    assert json.loads(hearth("runs", "--json").stdout)["runs"] == []


@pytest.mark.parametrize("command", ["run", "plan"])
def test_invalid_document_ends_with_2_and_the_place(
    hearth: Hearth, tmp_path: Path, command: str
) -> None:
    """An editor jumps to file:line:column."""
    path = tmp_path / "wrong.yaml"
    path.write_text(WRONG, encoding="utf-8")

    ended = hearth(command, str(path))

    assert (ended.exit_code, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"{path}:4:")
    assert "time.now" in ended.stderr


def test_plan_shows_what_would_run_and_runs_nothing(hearth: Hearth, empty_house: House) -> None:
    """One looks before one leaps."""
    plain = hearth("plan", "agent-turn")
    as_json = hearth("plan", "agent-turn", "--json")
    asked = hearth("plan", "agent-turn", "-i", "text=Is it {late}?")

    assert (plain.exit_code, as_json.exit_code, asked.exit_code) == (0, 0, 0)
    assert "reply: agent" in plain.stdout
    told = asked.stdout[asked.stdout.index("\nprompts:\n  reply\n    system | You are") :]
    assert "    system | Is it {late}?\n    messages | {{ inputs.messages or (" in told
    nodes = json.loads(as_json.stdout)["graph"]["nodes"]
    assert [node["id"] for node in nodes] == ["history", "reply"]
    assert empty_house.model.requests == []


def test_runs_are_listed_and_one_is_shown_as_a_tree(hearth: Hearth, empty_house: House) -> None:
    """Where did the time go, and what did it cost?"""
    empty_house.model.when("hello").say("Good day.")
    run = json.loads(hearth("run", "agent-turn", "-i", "text=hello", "--json").stdout)["run"]

    table, tree = hearth("runs"), hearth("runs", "show", run)
    unknown = hearth("runs", "show", "nobody")

    (line,) = table.stdout.splitlines()[1:]
    assert line.split()[:3] == [run, "agent-turn", "done"]
    assert line.rstrip().endswith("hello")
    assert "agent-turn  done" in tree.stdout
    assert "turn[1]/llm  done  llm" in tree.stdout
    assert "tokens" in tree.stdout
    assert (unknown.exit_code, unknown.stderr) == (1, "There is no run 'nobody'.\n")


def test_run_that_has_ended_cannot_be_cancelled(hearth: Hearth, sum_file: str) -> None:
    """The command says so instead of pretending."""
    run = json.loads(hearth("run", sum_file, "-i", "numbers=[1]", "--json").stdout)["run"]

    ended = hearth("runs", "cancel", run)

    assert (ended.exit_code, "had ended before: done" in ended.stderr) == (1, True)


@pytest.mark.proves("001-45")
def test_shell_and_api_give_the_same_documents_and_refuse_the_same(
    house: House, sum_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One compiler and one engine: what the shell says of a run is what the page says of it."""
    announce(house)
    alone = tmp_path / "alone"
    alone.mkdir()
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(WRONG, encoding="utf-8")
    monkeypatch.setenv("PIPECATAPP_GATEWAY_URL", f"{house.gateway}/v1")

    with_instance = told_by_shell(house.state, sum_file, str(wrong))
    without = told_by_shell(alone, sum_file, str(wrong))
    with house.client() as client:
        over_http = told_by_api(client, sum_file, str(wrong))
        runs = client.get("/api/runs").json()["runs"]

    assert with_instance == without == over_http
    view, plan, refusal = over_http
    assert view["outputs"] == {"total": 3, "loud": False}
    assert [node["id"] for node in plan["graph"]["nodes"]] == ["now"]
    assert len(refusal["diagnostics"]) == 1
    assert len(runs) == 2


def told_by_shell(state: Path, good: str, wrong: str) -> list[Any]:
    """A run, a plan and a refusal, as `--json` prints them."""
    app = typer.Typer()
    commands(app)

    def hearth(*words: str) -> Any:
        ended = CliRunner().invoke(app, [*words, "--state-dir", str(state), "--json"])
        return json.loads(ended.stdout)

    run = hearth("run", good, "-i", "numbers=[1, 2]")["run"]
    view = without_volatile(hearth("runs", "show", run))
    return [view, hearth("plan", good), hearth("plan", wrong)]


def told_by_api(client: httpx2.Client, good: str, wrong: str) -> list[Any]:
    """The same over HTTP."""
    document = {"document": SUM, "file": good}
    run = client.post("/api/runs", json={**document, "inputs": {"numbers": [1, 2]}}).json()["run"]
    with client.stream("GET", f"/api/runs/{run}/events") as answer:
        follow(answer)
    view = without_volatile(client.get(f"/api/runs/{run}").json())
    refusal = client.post("/api/plan", json={"document": WRONG, "file": wrong}).json()
    return [view, client.post("/api/plan", json=document).json(), refusal]


def without_volatile(value: Any) -> Any:
    """A document without what differs between two runs of the same: names and times."""
    if isinstance(value, dict):
        kept = {k: without_volatile(v) for k, v in value.items() if k not in VOLATILE}
        return kept | ({"output": None} if value.get("tool") == "time.now" else {})
    return [without_volatile(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("running", [True, False], ids=["instance", "ledger"])
def test_ctrl_c_cancels_the_run_and_ends_with_130(empty_house: House, *, running: bool) -> None:
    """The model stops, and the shell knows that a person ended it."""
    empty_house.model.when("hello").hang("One", after=1)
    if running:
        with empty_house.running():
            announce(empty_house)
            code, output = interrupted(empty_house)
    else:
        code, output = interrupted(empty_house)

    assert code == 130
    assert output.startswith("One")
    assert "was cancelled" in output
    empty_house.model.wait_until(lambda model: model.aborted == 1)


def interrupted(house: House) -> tuple[int, str]:
    """Run the command as a process, and press Ctrl-C once the model has said a word."""
    words = ["run", "agent-turn", "-i", "text=hello", "--state-dir", str(house.state)]
    command = subprocess.Popen(
        [sys.executable, "-m", "hearth", *words],
        env={**os.environ, **house.environment()},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with command:
        assert command.stdout is not None
        said = command.stdout.read(3)
        command.send_signal(signal.SIGINT)
        return command.wait(120), said + command.stdout.read()


def test_run_without_gateway_says_how_to_start_it(
    empty_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first thing that a newcomer tries before `hearth up`."""
    monkeypatch.setenv("PIPECATAPP_GATEWAY_URL", "http://127.0.0.1:9/v1")
    app = typer.Typer()
    commands(app)

    words = ["run", "agent-turn", "-i", "text=hello", "--state-dir", str(empty_house.state)]
    ended = CliRunner().invoke(app, words)

    assert ended.exit_code == 1
    assert "hearth up" in ended.stderr


def test_first_command_needs_no_instance_and_makes_its_own_state(
    tmp_path: Path, sum_file: str
) -> None:
    """A person tries a document before anything was ever started."""
    app = typer.Typer()
    commands(app)
    state = StateDir(tmp_path / "never" / "started")

    planned = CliRunner().invoke(app, ["plan", "agent-turn", "--state-dir", str(state.root)])
    ran = CliRunner().invoke(
        app,
        ["run", sum_file, "--input", "numbers=[1, 2]", "--json", "--state-dir", str(state.root)],
    )

    assert (planned.exit_code, ran.exit_code) == (0, 0), planned.output + ran.output
    assert json.loads(ran.stdout)["outputs"]["total"] == 3
    assert state.root.stat().st_mode & 0o077 == 0
    assert state.version_file.read_text(encoding="utf-8").strip() == "1"
