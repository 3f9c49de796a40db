"""Secrets of a project: in the environment of its programs, and nowhere else."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from pipecatapp.cli import commands
from tests.integration.agent.conftest import House
from tests.integration.agent.library.test_shelf import ran
from tests.shown import Shown

VALUE = "sk-oven-0123456789abcdef"
PROJECT = """
kind: project
id: bakery
secrets: {oven: "kept:oven", till: "env:BAKERY_TILL"}
"""
BAKING = """
id: baking
project: bakery
steps:
  - id: bake
    use: code.run
    with:
      secrets: {OVEN_KEY: oven}
      code: |
        import os, sys
        key = os.environ["OVEN_KEY"]
        print(len(key), "is the length of", key)
        print("heated with", key, file=sys.stderr)
        open(f"{key}.log", "w")
        raise ValueError(key)
  - {id: again, use: llm, with: {text: "{{ bake.stdout }} {{ bake.error.message }}"}}
outputs: {text: "{{ again.text }}", error: "{{ bake.error.message }}"}
"""
ASKING = """
id: asking
project: bakery
steps: [{id: reply, use: agent, with: {text: Bake., tools: [code.run]}}]
outputs: {text: "{{ reply.answer }}"}
"""


def command(state: Path, *words: str, given: str = "") -> Result:
    app = typer.Typer()
    commands(app)
    return CliRunner().invoke(app, [*words, "--state-dir", str(state)], input=given)


def hearth(state: Path, *words: str, given: str = "") -> str:
    ended = command(state, *words, given=given)
    assert ended.exit_code == 0, ended.output
    return ended.stdout


@pytest.fixture
def bakery(empty_house: House) -> House:
    """A house with the project and without the values of its secrets."""
    (empty_house.state / "projects").mkdir()
    (empty_house.state / "projects" / "bakery.yaml").write_text(PROJECT, encoding="utf-8")
    return empty_house


def test_secret_reaches_the_program_and_nothing_that_is_kept_or_told(bakery: House) -> None:
    """A key in a ledger, a log or a prompt is a key that everybody has who reads one."""
    told = hearth(bakery.state, "secrets", "set", "oven", given=f"{VALUE}\n")
    bakery.model.when("is the length of").say("Baked.")
    with bakery.running(), bakery.client() as client:
        view = ran(client, "/api/runs", {"document": BAKING})
        events = client.get(f"/api/runs/{view['id']}/events").text
    file = bakery.state / "secrets" / "oven"
    asked = [json.dumps(one.body) for one in bakery.model.requests]

    assert view["error"] is None
    assert view["outputs"] == {"text": "Baked.", "error": "***"}
    bake = view["steps"][0]["output"]
    assert bake["stdout"] == f"{len(VALUE)} is the length of ***\n"
    assert "heated with ***" in bake["stderr"]
    assert [one["path"] for one in bake["files"]] == ["***.log"]
    assert file.read_text(encoding="utf-8") == VALUE
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert hearth(bakery.state, "secrets") == "oven\n"
    assert not any(VALUE in text for text in (told, json.dumps(view), events, *asked))
    others = [one for one in bakery.state.glob("*") if one.is_file()]
    assert len(others) > 2
    assert not [one for one in others if VALUE.encode() in one.read_bytes()]


def test_plan_says_which_secret_is_missing_and_where_it_should_lie(bakery: House) -> None:
    """Who learns it from a plan mends it before anything has run."""
    wrong = BAKING.replace("OVEN_KEY: oven", "OVEN_KEY: ovn")
    env = BAKING.replace("OVEN_KEY: oven", "TILL: till")
    without = BAKING.replace("project: bakery\n", "")
    with bakery.running(), bakery.client() as client:

        def planned(document: str) -> Any:
            return client.post("/api/plan", json={"document": document}).json()

        missing, unset = planned(BAKING)["warnings"], planned(env)["warnings"]
        unknown, bare = planned(wrong)["text"], planned(without)["text"]
        view = ran(client, "/api/runs", {"document": BAKING})
        hearth(bakery.state, "secrets", "set", "oven", given=VALUE)
        mended = planned(BAKING)["warnings"]

    reason = "the secret 'oven' is missing: nothing is at kept:oven"
    assert [(one["line"], one["message"]) for one in missing] == [(8, reason)]
    assert missing[0]["mend"] == "Run `hearth secrets set oven`"
    assert "nothing is at env:BAKERY_TILL" in unset[0]["said"]
    assert "there is no secret 'ovn' here. Did you mean 'oven'?" in unknown
    assert "there is no secret 'oven' here. Name it under `secrets`" in bare
    assert view["status"] == "failed"
    assert "nothing is at kept:oven. Run `hearth secrets set oven`" in view["error"]
    assert mended == []


def test_model_that_asks_for_a_secret_is_refused(bakery: House) -> None:
    """A program that a model writes could tell it everything it knows, whatever is hidden of it;
    the document that gives the agent its tools cannot hand a secret on either."""
    hearth(bakery.state, "secrets", "set", "oven", given=VALUE)
    given = {"code": "import os; print(os.environ['K'][::-1])", "secrets": {"K": "oven"}}
    handed_on = ASKING.replace(
        "tools: [code.run]", "tools: [code.run], tool_inputs: {code.run: {secrets: {K: oven}}}"
    ).replace("Bake.", "Fry.")
    bakery.model.when("secrets: set by the document").say("I may not.")
    bakery.model.when("Only a node").say("Nor may I.")
    bakery.model.when("Bake.").call_tool("code_run", given)
    bakery.model.when("Fry.").call_tool("code_run", {"code": given["code"]})
    with bakery.running(), bakery.client() as client:
        view = ran(client, "/api/runs", {"document": ASKING})
        again = ran(client, "/api/runs", {"document": handed_on})

    assert view["outputs"] == {"text": "I may not."}
    assert again["outputs"] == {"text": "Nor may I."}
    refused = next(one for one in again["steps"] if one["tool"] == "code.run")
    assert refused["status"] == "failed"
    assert "Only a node of a workflow with a `project`" in refused["error"]
    assert VALUE[::-1] not in json.dumps([view, again])


def test_shown_commands_keep_and_remove_and_a_wrong_name_is_refused(
    bakery: House, shown: Shown
) -> None:
    """What nobody needs any more must not stay, and a name must not be a way out of the folder."""
    told = [
        hearth(bakery.state, *line.split()[1:], given=VALUE)
        for line in shown.take("docs/howto/keep-tasks.md").splitlines()
    ]
    wrong = command(bakery.state, "secrets", "set", "../key", given=VALUE)

    assert told == [
        "Secret weather is stored. Projects refer to it as `kept:weather`.\n",
        "weather\n",
        "",
    ]
    assert json.loads(hearth(bakery.state, "secrets", "--json")) == {"secrets": []}
    assert (wrong.exit_code, "not a valid name of a secret" in wrong.output) == (2, True)
    assert (bakery.state / "key").read_text(encoding="utf-8") == bakery.key
