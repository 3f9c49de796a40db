"""`hearth evolve` and the scripts of the package, on a state directory without an instance."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from prompt_engineering import run_campaign, visualize_archive
from prompt_engineering.cli import commands
from tests.integration.agent.conftest import House
from tests.integration.agent.evolution.conftest import PROMPT, SEED, archive_folder

EXTENDED_INPUTS = ["prompt_engineering/**"]

Evolve = Callable[..., Result]
ROOT = Path(__file__).parents[4]
DONE, FAILED, INVALID = 0, 1, 2


@pytest.fixture
def evolve(classify_house: House, monkeypatch: pytest.MonkeyPatch) -> Evolve:
    """The commands on the state directory of the house."""
    for name, value in classify_house.environment().items():
        monkeypatch.setenv(name, value)
    app = typer.Typer()
    app.callback()(lambda: None)
    commands(app)

    def run(*words: str) -> Result:
        return CliRunner().invoke(app, ["evolve", *words, "--state-dir", str(classify_house.state)])

    return run


def test_campaign_by_commands_up_to_the_proposal(classify_house: House, evolve: Evolve) -> None:
    """The cost first, then the campaign, its list, its candidates; a script cannot promote."""
    options = ("classify", "--seed", str(SEED), "--candidates", "3")

    cost = evolve("run", *options, "--dry-run")
    assert not archive_folder(classify_house).exists()
    assert not (classify_house.state / "evolution" / "splits.json").exists()
    ran = evolve("run", *options)
    listed, shown = evolve("list"), evolve("show", "classify-001")
    candidate = evolve("show", "classify-001", "--candidate", "c00001")
    refused = evolve("promote", "classify-001")
    nothing_live = evolve("rollback", "classify")

    assert cost.stdout == (
        "At most 15 runs of the search and 80 of the gate.\n"
        "217 tokens a run (an estimate, without earlier runs): at most 20615 tokens; the budget is"
        " 1000000.\n"
    )
    assert ran.exit_code == DONE, ran.output
    assert "The gate passed: the prompt is proposed." in ran.stdout
    assert "classify-001  classify" in listed.stdout
    assert "8 only the new one, 0 only the live one. Evidence e = 25.63" in shown.stdout
    assert "-Answer in full sentences." in candidate.stdout
    assert refused.exit_code == INVALID
    assert "A person confirms a promotion" in refused.stderr
    assert nothing_live.exit_code == FAILED


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("run", "nosuch"), FAILED, "There is no prompt 'nosuch'."),
        (("run", "classify", "--cases", "nosuch.yaml"), INVALID, "nosuch.yaml cannot be read"),
        (("run", "classify", "--selection-method", "best"), INVALID, "--selection-method"),
        (("show", "nosuch"), FAILED, "There is no campaign 'nosuch'."),
    ],
)
def test_what_is_wrong_is_said_with_its_exit_code(
    evolve: Evolve, words: tuple[str, ...], code: int, message: str
) -> None:
    """In one sentence, on standard error."""
    ended = evolve(*words)

    assert ended.exit_code == code
    assert message in ended.stderr


def test_gate_needs_forty_cases_and_search_alone_does_not(
    classify_house: House, evolve: Evolve
) -> None:
    """A proposal without evidence is worse than none."""
    file = classify_house.state / "evolution" / "cases" / "fruits.yaml"
    lines = file.read_text().split("- id: ")
    file.write_text("- id: ".join(lines[:30]))

    refused = evolve("run", "classify", "--candidates", "1")
    search = evolve("run", "classify", "--candidates", "1", "--no-gate", "--json")

    assert refused.exit_code == INVALID
    assert "unused cases and needs 40" in refused.stderr
    assert search.exit_code == DONE
    assert json.loads(search.stdout)["decision"] is None


@pytest.mark.proves("004-07")
def test_test_case_of_a_file_must_pass(
    classify_house: House, evolve: Evolve, tmp_path: Path
) -> None:
    """The external case runs first, on each candidate; only one that passes it is proposed."""
    check = "checks: [{equals: sweet}], fingerprint: outside"
    file = tmp_path / "outside.yaml"
    file.write_text(
        f"cases: [{{id: outside, workflow: classify, inputs: {{text: A fig?}}, {check}}}]\n"
    )
    options = ("classify", "--seed", str(SEED), "--candidates", "2", "--cases")

    ran = evolve("run", *options, str(classify_house.state / "evolution" / "cases"),
                 "--test-case", str(file))  # fmt: skip
    shown = json.loads(evolve("show", "classify-001", "--json").stdout)

    assert ran.exit_code == DONE, ran.output
    assert shown["proposal"]["evidence"]["required"] == ["outside"]
    passes = {one["id"]: one["learn"]["outside"]["passes"] for one in shown["candidates"]}
    assert passes == {"c00000": 0, "c00001": 1}


def test_token_budget_ends_a_campaign(classify_house: House, evolve: Evolve) -> None:
    """Half of the budget for the search; the rest is for the gate, and it ends it, too."""
    ended = evolve("run", "classify", "--seed", str(SEED), "--budget", "700", "--json")

    assert ended.exit_code == FAILED
    result = json.loads(ended.stdout)
    assert result["tokens"] < 700 + 2 * 60
    assert result["decision"] in (None, "no_budget")


def test_campaign_with_other_cases_is_not_continued(classify_house: House, evolve: Evolve) -> None:
    """Scores that were measured with other checks do not compare."""
    words = ("run", "classify", "--campaign", "mine", "--candidates", "1", "--no-gate")
    first = evolve(*words)
    again = evolve(*words)
    file = classify_house.state / "evolution" / "cases" / "fruits.yaml"
    file.write_text(file.read_text().replace("equals: sweet", "contains: sweet"))

    changed = evolve(*words)

    assert (first.exit_code, again.exit_code, changed.exit_code) == (DONE, DONE, INVALID)
    assert "The cases have changed" in changed.stderr


def test_person_promotes_in_a_terminal(
    classify_house: House, evolve: Evolve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The evidence and the change are shown, and the name of the prompt has to be typed."""
    assert evolve("run", "classify", "--seed", str(SEED), "--candidates", "2").exit_code == DONE

    typed = in_terminal(classify_house, "promote_agent", "classify-001", typed="classify\nAda\n")

    assert "-Answer in full sentences." in typed
    assert "Live. Take it back with `hearth evolve rollback classify`." in typed
    assert "confirmed by Ada" in evolve("list").stdout
    assert evolve("rollback", "classify").exit_code == DONE
    assert not list((classify_house.state / "evolution" / "promoted").glob("*.json"))


def in_terminal(house: House, script: str, *words: str, typed: str) -> str:
    """Run a script of the package in a terminal of its own and return what it shows."""
    main, terminal = pty.openpty()
    command = [sys.executable, "-m", f"prompt_engineering.{script}", *words]
    command += ["--state-dir", str(house.state)]
    os.write(main, typed.encode())
    ended = subprocess.run(
        command, stdin=terminal, capture_output=True, text=True, check=False, cwd=ROOT,
        env=os.environ | house.environment(),
    )  # fmt: skip
    os.close(main)
    os.close(terminal)
    return ended.stdout + ended.stderr


@pytest.mark.proves("004-01")
@pytest.mark.parametrize(
    ("codes", "expected"), [([1, 1, 0, 1], [1, 1, 0]), ([1, 2, 0], [1, 2]), ([1, 1, 1], [1, 1, 1])]
)
def test_rounds_end_with_a_proposal_or_an_error(
    monkeypatch: pytest.MonkeyPatch, codes: list[int], expected: list[int]
) -> None:
    """The calls of evolve.py are recorded here; the next test makes real ones."""
    calls: list[list[str]] = []

    def recorded(command: list[str], **_options: Any) -> subprocess.CompletedProcess[str]:
        calls.append(command)
        return subprocess.CompletedProcess(command, codes[len(calls) - 1])

    monkeypatch.setattr(subprocess, "run", recorded)

    ended = run_campaign.run_rounds("classify", len(codes), ["--no-gate"], seed=5)

    assert ended == expected
    assert [call[1:] for call in calls] == [
        ["-m", "prompt_engineering.evolve", "classify", "--seed", str(seed), "--no-gate"]
        for seed in range(5, 5 + len(expected))
    ]


@pytest.mark.extended
@pytest.mark.proves("004-01")
def test_rounds_of_real_processes_find_a_proposal(
    classify_house: House, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Seed 25 finds nothing in two candidates, seed 26 does; the archive is then shown."""
    for name, value in classify_house.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(ROOT)
    options = ["--candidates", "2", "--state-dir", str(classify_house.state)]

    assert run_campaign.run_rounds("classify", 3, options, seed=SEED - 1) == [FAILED, DONE]

    visualize_archive.visualize(archive_folder(classify_house, "classify-002"))
    visualize_archive.visualize(archive_folder(classify_house, "classify-002"), "dot")
    shown = capsys.readouterr().out
    assert "c00000 seed 0 of 5\n  c00001 drop 5 of 5 Remove line 2." in shown
    assert '"c00000" -> "c00001";' in shown
    with pytest.raises(typer.Exit):
        visualize_archive.visualize(classify_house.state)
    assert PROMPT in (classify_house.state / "prompts" / "classify.md").read_text()
