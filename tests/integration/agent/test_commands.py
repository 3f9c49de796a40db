"""Every command with and without a running instance: the same output, exit code and caller."""

import asyncio
import json
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import structlog
import typer
from typer.testing import CliRunner, Result

from hearth.service.state import Instance, StateDir
from pipecatapp.app import build_app
from pipecatapp.cli import commands
from pipecatapp.client import connect
from tests.conftest import served
from tests.integration.agent.conftest import House, ScriptedGateway

DONE, FAILED, INVALID = 0, 1, 2

FILES = {
    "sum.yaml": """
id: sum
tags: [numbers]
inputs: {numbers: "list of integer"}
steps:
  - {id: now, use: time.now, with: {zone: UTC}}
outputs: {total: "{{ inputs.numbers | sum }}"}
""",
    "fails.yaml": "id: fails\nsteps:\n  - {id: a, use: time.now, with: {zone: Nowhere}}\n",
    "wrong.yaml": "id: wrong\nsteps:\n  - id: a\n    use: time.noww\n",
    "layer.yaml": "kind: layer\nid: other\nof: sum\nset: {now.with.zone: Asia/Tokyo}\n",
    "polite.md": "---\ntags: [style]\n---\nBe polite.\n",
    "runs.jsonl": "{}\n",
    "fixes.json": """{"format": 1, "fixes": [{
        "signature": "NameError: x [f]", "language": "Python", "pattern": "NameError: x",
        "edit": [{"path": "a.py", "symbol": "f", "lines": ["-    x", "+    y"]}],
        "at": "2026-01-01T00:00:00.000Z", "asked": 4, "applied": 4, "green": 3}]}""",
    "old.yaml": "pipeline: 3\n",
}
CASES: list[tuple[str, int]] = [
    ("run sum.yaml -i numbers=[1,2] --json", DONE),
    ("run sum.yaml -i numbers=[1,2] --allow pure", INVALID),
    ("run sum.yaml -i numbers=[1,2] --allow nosuch", INVALID),
    ("run sum.yaml -i number=1", INVALID),
    ("run sum.yaml --select axis", INVALID),
    ("run sum.yaml -i numbers=[1] --layer nosuch", INVALID),
    ("run nosuch", INVALID),
    ("run nosuch.yaml", INVALID),
    ("run wrong.yaml", INVALID),
    ("run fails.yaml --json", FAILED),
    ("code fix false --repo nosuch", INVALID),
    ("code build clock --into sum.yaml", INVALID),
    ("code task clock --repo nosuch", INVALID),
    ("runs todo nosuch", FAILED),
    ("runs todo nosuch --strike x", FAILED),
    ("code memory --repo nosuch", INVALID),
    ("plan sum.yaml --json", DONE),
    ("plan sum.yaml -i numbers=[1] --json", DONE),
    ("plan wrong.yaml --json", INVALID),
    ("plan sum.yaml --fork nosuch", FAILED),
    ("explain sum.yaml now.with.zone --json", DONE),
    ("explain nosuch .about", INVALID),
    ("flatten sum.yaml", DONE),
    ("flatten wrong.yaml --format usda", DONE),
    ("flatten nosuch", INVALID),
    ("validate sum.yaml agent-turn --json", DONE),
    ("validate sum.yaml wrong.yaml --json", INVALID),
    ("runs --json", DONE),
    ("runs list --text nothing --since 2026-01-01 --json", DONE),
    ("runs list --since yesterday", INVALID),
    ("runs --status nosuch", INVALID),
    ("runs show nosuch --json", FAILED),
    ("runs events nosuch", FAILED),
    ("runs cancel nosuch", FAILED),
    ("runs answer nosuch a 1", FAILED),
    ("runs note nosuch text", FAILED),
    ("runs again nosuch", FAILED),
    ("runs fork nosuch", FAILED),
    ("runs pin nosuch a", FAILED),
    ("runs compare nosuch other --json", FAILED),
    ("runs changes nosuch", FAILED),
    ("runs delete nosuch", FAILED),
    ("runs export nosuch", FAILED),
    ("runs import runs.jsonl", INVALID),
    ("runs prune --days 1 --dry-run", DONE),
    ("runs prune --days 1 --look", DONE),
    ("workflows --json", DONE),
    ("workflows show agent-turn --json", DONE),
    ("workflows show nosuch", INVALID),
    ("workflows show No/Such", FAILED),
    ("workflows save sum.yaml", DONE),
    ("workflows save wrong.yaml", INVALID),
    ("workflows edit sum --set .about=Adds. --dry-run --json", DONE),
    ("workflows edit sum --set .about=Adds. --look --json", DONE),
    ("workflows edit sum --set nosuch", INVALID),
    ("workflows edit sum --set nosuch=1", INVALID),
    ("workflows edit nosuch --set .about=x", INVALID),
    ("workflows edit sum", INVALID),
    ("workflows diff sum agent-turn --json", DONE),
    ("workflows diff sum nosuch", INVALID),
    ("workflows remove nosuch", INVALID),
    ("workflows remove agent-turn", FAILED),
    ("home status --json", DONE),
    ("home leave", FAILED),
    ("layers save layer.yaml", DONE),
    ("layers save sum.yaml", INVALID),
    ("layers --json", DONE),
    ("layers show other --json", DONE),
    ("layers show nosuch", INVALID),
    ("layers show Nosuch", INVALID),
    ("layers remove nosuch", INVALID),
    ("layers remove other", DONE),
    ("workflows remove sum", DONE),
    ("tools --json", DONE),
    ("tools list --json", DONE),
    ("tools show file.read --json", DONE),
    ("tools show file.rid", INVALID),
    ("tools run time.now -i zone=Asia/Tokyo --allow pure", INVALID),
    ("tools run value -i value=1 --json", DONE),
    ("tools run file.read -f polite.md -i path=polite.md", DONE),
    ("tools run file.read -f nosuch.md -i path=nosuch.md", INVALID),
    ("tools run file.read -f a=polite.md -f a=sum.yaml -i path=a", INVALID),
    ("tools run file.read -f ../a=polite.md -i path=a", INVALID),
    ("tools run file.read -i path=nosuch", FAILED),
    ("tools run file.read", INVALID),
    ("tools run file.rid", INVALID),
    ("runs files nosuch", FAILED),
    ("runs files nosuch a.txt", FAILED),
    ("import old.yaml", INVALID),
    ("prompts add polite.md", DONE),
    ("prompts add sum.yaml", INVALID),
    ("prompts --json", DONE),
    ("prompts show nosuch --json", FAILED),
    ("prompts remove nosuch", FAILED),
    ("prompts remove polite", DONE),
    ("projects --json", DONE),
    ("projects show nosuch", FAILED),
    ("tasks add sum.yaml", DONE),
    ("tasks add wrong.yaml", INVALID),
    ("tasks --json", DONE),
    ("tasks show sum --json", DONE),
    ("tasks show nosuch", FAILED),
    ("tasks copy sum tokyo --set now.with.zone=Asia/Tokyo", DONE),
    ("tasks vary sum berlin --set now.with.zone=Europe/Berlin", DONE),
    ("tasks copy nosuch other", FAILED),
    ("tasks copy sum Other", INVALID),
    ("tasks run tokyo -i numbers=[1] --json", DONE),
    ("tasks run nosuch", FAILED),
    ("conversations --json", DONE),
    ("conversations list --text nosuch", DONE),
    ("conversations rename task/tokyo Sums", DONE),
    ("conversations rename nosuch Sums", FAILED),
    ("conversations pin task/tokyo", DONE),
    ("conversations pin nosuch", FAILED),
    ("conversations unpin task/tokyo", DONE),
    ("conversations unpin nosuch", FAILED),
    ("conversations branch task/tokyo", DONE),
    ("conversations branch nosuch", FAILED),
    ("conversations export task/tokyo", DONE),
    ("conversations export task/tokyo --format json", DONE),
    ("conversations export nosuch", FAILED),
    ("conversations delete task/tokyo", DONE),
    ("conversations delete nosuch", FAILED),
    ("schedule add daily sum --cron @never --input numbers=[1]", INVALID),
    ("schedule add daily sum --every 24h --input numbers=[1]", DONE),
    ("schedule add daily nosuch --every 24h", INVALID),
    ("schedule --json", DONE),
    ("schedule pause daily", DONE),
    ("schedule resume daily", DONE),
    ("schedule run daily", DONE),
    ("schedule run nosuch", FAILED),
    ("schedule pause nosuch", FAILED),
    ("schedule resume nosuch", FAILED),
    ("schedule remove nosuch", FAILED),
    ("schedule remove daily", DONE),
    ("triggers webhook bell sum --secret env:BELL --input numbers={{body.numbers}}", DONE),
    ("triggers webhook bell sum", INVALID),
    ("triggers folder inbox sum nosuch --input numbers=[1]", INVALID),
    ("triggers pause bell", DONE),
    ("triggers resume bell", DONE),
    ("triggers --json", DONE),
    ("triggers remove bell", DONE),
    ("triggers remove bell", FAILED),
    ("bundles export nosuch -o no.hearth", FAILED),
    ("bundles show sum.yaml", INVALID),
    ("bundles import nosuch.hearth", INVALID),
    ("bundles --json", DONE),
    ("knowledge add papers nosuch", INVALID),
    ("knowledge show nosuch", FAILED),
    ("knowledge update nosuch", FAILED),
    ("knowledge readers nosuch", FAILED),
    ("knowledge remove nosuch", FAILED),
    ("knowledge search bread", FAILED),
    ("knowledge list --json", DONE),
    ("tasks remove nosuch", FAILED),
    ("tasks remove tokyo", DONE),
    ("secrets --json", DONE),
    ("secrets remove nosuch", FAILED),
    ("fixes import fixes.json", DONE),
    ("fixes import runs.jsonl", INVALID),
    ("fixes import nosuch.json", INVALID),
    ("fixes", DONE),
    ("fixes list --search NameError --json", DONE),
    ("fixes export", DONE),
    ("fixes export nosuch", FAILED),
    ("fixes show nosuch", FAILED),
    ("fixes forget nosuch", FAILED),
]
"""In this order: some commands use what an earlier one has saved."""
ALONE = {"backup", "home join", "restore", "secrets set", "workflows test"}
"""They take a whole state directory, a copy of it or standard input, or need an instance; they are
tested elsewhere."""

VARIES = re.compile(
    r"\b01[0-9A-Z]{24}\b|\d{4}-\d\d-\d\dT[\d:.]+Z|\d{4}-\d\d-\d\d \d\d:\d\d"
    r"|\"(seconds|started|ended|at|due|run|id)\": [^\n]*"
)
"""Ids of runs, times, and fields that hold one."""


class Commands:
    """The commands on two equal state directories, of which only the first has an instance."""

    def __init__(self, states: tuple[Path, Path]) -> None:
        self._states, self._app = states, typer.Typer()
        commands(self._app)

    def both(self, words: str) -> tuple[Result, Result]:
        """Run one command on both."""
        return self._run(words, 0), self._run(words, 1)

    def told(self, result: Result, which: int) -> tuple[int, str, str]:
        """Exit code and output, without what differs between any two runs."""
        state = str(self._states[which])
        outputs = (result.stdout, result.stderr)
        stdout, stderr = (VARIES.sub("…", text.replace(state, "STATE")) for text in outputs)
        return result.exit_code, stdout, stderr

    def _run(self, words: str, which: int) -> Result:
        state = ["--state-dir", str(self._states[which])]
        return CliRunner().invoke(self._app, [*words.split(), *state])


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    """One instance for all cases: starting one takes longer than the command."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    folder = tmp_path_factory.mktemp("commands")
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    model = ScriptedGateway()
    with served(model.app) as gateway, pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("PIPECATAPP_GATEWAY_URL", f"{gateway}/v1")
        houses = [_house(folder / name, model, gateway) for name in ("instance", "alone")]
        with served(build_app(houses[0].settings())) as houses[0].address:
            _announce(houses[0])
            yield Commands((houses[0].state, houses[1].state))


def _house(state: Path, model: ScriptedGateway, gateway: str) -> House:
    house = House(state, model, gateway)
    house.state.mkdir()
    (house.state / "key").write_text(house.key, encoding="utf-8")
    (house.state / "service_key").write_text("sk-hearth-services", encoding="utf-8")
    return house


def _announce(house: House) -> None:
    state = StateDir(house.state)
    instance = Instance(
        pid=os.getpid(), started=datetime.now(UTC), web=house.address,
        api=f"{house.gateway}/v1", key_file=state.key_file, services=[],
    )  # fmt: skip
    state.instance_file.write_text(instance.model_dump_json(), encoding="utf-8")


@pytest.mark.proves("001-45")
@pytest.mark.parametrize(("words", "code"), CASES, ids=[words for words, _ in CASES])
def test_command_ends_alike_with_and_without_an_instance(
    two: Commands, words: str, code: int
) -> None:
    """A script must not depend on whether an instance happens to run."""
    beside, alone = two.both(words)

    assert two.told(beside, 0) == two.told(alone, 1)
    assert alone.exit_code == code, alone.output


def test_cases_hold_every_command() -> None:
    """A new command without a case would be compared with nothing."""
    app = typer.Typer()
    commands(app)

    tested = {" ".join(words.split()[:2]) for words, _ in CASES}
    left = {name for name in _leaves(typer.main.get_command(app)) if name not in ALONE}

    assert {
        name for name in left if not any(f"{one} ".startswith(f"{name} ") for one in tested)
    } == set()


def _leaves(command: Any, path: str = "") -> Iterator[str]:
    if inner_commands := getattr(command, "commands", None):
        for name, inner in inner_commands.items():
            yield from _leaves(inner, f"{path} {name}".strip())
    else:
        yield path


def test_ledger_records_the_same_caller_with_and_without_an_instance(two: Commands) -> None:
    """Whoever reads a run later learns where it came from, not what ran beside it."""
    callers = []
    for which in (0, 1):
        ran = two._run("run sum.yaml -i numbers=[1] --json", which)
        run = json.loads(ran.stdout)["run"]
        shown = json.loads(two._run(f"runs show {run} --json", which).stdout)
        callers.append(shown["caller"])

    assert callers == ["cli", "cli"]


async def test_stream_without_an_instance_comes_before_the_run_ends(
    empty_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person reads the first words while the model still writes the others."""
    monkeypatch.setenv("PIPECATAPP_GATEWAY_URL", f"{empty_house.gateway}/v1")
    empty_house.model.when("hello").hang("One", after=1)
    start: dict[str, Any] = {"workflow": "agent-turn", "inputs": {"text": "hello"}}

    async with asyncio.timeout(60), connect(empty_house.state) as client:
        run = (await client.request("POST", "/api/runs", start))["run"]
        events = client.events(run)
        text = await anext(event["text"] async for event in events if event["type"] == "delta")
        meanwhile = await client.request("GET", f"/api/runs/{run}")
        await client.request("POST", f"/api/runs/{run}/cancel")

    assert (text, meanwhile["status"]) == ("One", "running")
