"""`hearth workflows test`: a workflow's function, output quality, errors and fallbacks."""

import json
from pathlib import Path

import pytest

from tests.integration.agent.conftest import House
from tests.integration.agent.test_cli import Hearth, announce, command

EXAMPLE = Path(__file__).parents[3] / "examples" / "tests"
FUNCTION = "a headline comes from the first model"
QUALITY = "a headline that is too long is asked for again"
OTHER_MODEL = "another model answers when the first one fails"
NO_MODEL = "without any model the first words are taken"
EMPTY = "an empty text is an error"
MISSING = "a missing input is refused"


@pytest.fixture
def hearth(empty_house: House, monkeypatch: pytest.MonkeyPatch) -> Hearth:
    """The command, without a running instance."""
    return command(empty_house, monkeypatch)


def copied(folder: Path, old: str = "", new: str = "") -> str:
    """Copy the example with a change of its workflow; return the file with the tests."""
    for path in EXAMPLE.iterdir():
        text = path.read_text(encoding="utf-8")
        if path.name == "headline.yaml" and old:
            assert text.count(old) == 1
            text = text.replace(old, new)
        (folder / path.name).write_text(text, encoding="utf-8")
    return str(folder / "headline.tests.yaml")


def test_example_passes_and_leaves_no_trace(
    hearth: Hearth, empty_house: House, tmp_path: Path
) -> None:
    """Its runs are not those of the person, and the models of the person are not asked."""
    ended = hearth("workflows", "test", copied(tmp_path))

    assert ended.exit_code == 0, ended.output
    assert ended.output.splitlines()[-1] == "6 passed, 0 failed."
    assert empty_house.model.requests == []
    assert json.loads(hearth("runs", "list", "--json").stdout)["runs"] == []


@pytest.mark.parametrize(("name", "count"), [("energy-chart", 2), ("answer-with-sources", 1)])
def test_examples_with_tools_pass(hearth: Hearth, name: str, count: int) -> None:
    """A chart of a file is drawn; a search without an engine names the setting."""
    ended = hearth("workflows", "test", str(EXAMPLE / f"{name}.tests.yaml"))

    assert (ended.exit_code, ended.output.splitlines()[-1]) == (0, f"{count} passed, 0 failed.")


@pytest.mark.proves("001-29")
def test_repairs_without_a_model_and_by_the_small_model(hearth: Hearth) -> None:
    """A real run repairs what is clear itself, lists it, and asks a model for the rest only."""
    ended = hearth("workflows", "test", str(EXAMPLE / "tags.tests.yaml"))

    assert (ended.exit_code, ended.output.splitlines()[-1]) == (0, "4 passed, 0 failed."), ended


@pytest.mark.proves("001-42")
@pytest.mark.parametrize(
    ("old", "new", "failed", "reason"),
    [
        (
            '"A headline for: {{ known.value }}"', "A headline",
            FUNCTION, 'instead of "Tea from many lands"',
        ),
        (
            'first(draft.text, plain.value) | trim', "first(draft.text, plain.value) | upper",
            FUNCTION, "Output 'text' is \"TEA FROM MANY LANDS\"",
        ),
        ("draft.text | length <= 40", "draft.text != ''", QUALITY, "it is short: "),
        ("    retry: 1\n", "", QUALITY, "The models that are asked: small instead of small, small"),
        ("[small, big]", "small", OTHER_MODEL, "small instead of small, big"),
        ("    on_error: continue\n", "", NO_MODEL, "The run is failed instead of done: draft: "),
        (
            'value: "{{ known.value | truncate(40) }}"', 'value: ""',
            NO_MODEL, 'Output \'text\' is "" instead of "Tea is grown',
        ),
        ("known.value != ''", "known.value != 1", EMPTY, "The run is done instead of failed"),
        ("    type: text\n", '    type: text\n    default: "x"\n', MISSING, "The error is \"\""),
    ],
)  # fmt: skip
def test_what_a_workflow_loses_fails_its_test(
    old: str, new: str, failed: str, reason: str, *, hearth: Hearth, tmp_path: Path
) -> None:
    """Without its function, quality, error or fallback, the test of it fails with the reason."""
    ended = hearth("workflows", "test", copied(tmp_path, old, new), "--json")

    results = {test["name"]: test for test in json.loads(ended.stdout)["tests"]}
    assert ended.exit_code == 1
    assert not results[failed]["passed"]
    assert reason in " ".join(results[failed]["failures"])


def test_shipped_workflow_own_prompt_and_running_instance(
    hearth: Hearth, empty_house: House, tmp_path: Path
) -> None:
    """Documents of the person are used as they are, while an instance runs on them."""
    tests = tmp_path / "own.tests.yaml"
    tests.write_text("""
kind: tests
workflow: own
roles: {default: large}
models: [small, large]
tests:
  - name: the prompt is used
    inputs: {text: Hello}
    model: [{when: Hello, say: Ahoy}, {call: time.now, arguments: {}}]
    expect: {outputs: {text: Ahoy}, models: [large]}
""", encoding="utf-8")  # fmt: skip
    for name, text in {
        "workflows/own.yaml": "kind: workflow\nid: own\ninputs: {text: text}\nsteps:\n"
        "  - {id: a, use: llm, model: default, prompt: [pirate], with: {text: '{{ inputs.text }}'}}"
        "\noutputs: {text: '{{ a.text }}'}\n",
        "prompts/pirate.md": "---\ntags: [pirate]\n---\nYou are a pirate.\n",
    }.items():
        (empty_house.state / name).parent.mkdir(exist_ok=True)
        (empty_house.state / name).write_text(text, encoding="utf-8")
    with empty_house.running():
        announce(empty_house)
        ended = hearth("workflows", "test", str(tests))

    assert (ended.exit_code, ended.output.splitlines()[-1]) == (0, "1 passed, 0 failed."), ended


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("kind: tests\nworkflow: x\ntests: []\n", "tests: List should have at least 1 item"),
        ("kind: tests\nworkflow: [", "cannot be read"),
        (
            "kind: tests\nworkflow: x\ntests: [{name: a, model: [{say: a, fail: 500}]}]\n",
            "an answer has one of `say`, `call` and `fail`",
        ),
        ("kind: tests\nworkflow: nosuch\ntests: [{name: a}]\n", "nosuch"),
        ("kind: tests\nworkflow: no.yaml\ntests: [{name: a}]\n", "no.yaml cannot be read"),
    ],
)
def test_invalid_file_ends_with_2_and_the_reason(
    text: str, reason: str, *, hearth: Hearth, tmp_path: Path
) -> None:
    """Nothing is run then."""
    (tmp_path / "a.tests.yaml").write_text(text, encoding="utf-8")
    ended = hearth("workflows", "test", str(tmp_path / "a.tests.yaml"))

    assert ended.exit_code == 2
    assert reason in ended.output


def test_name_selects_tests(hearth: Hearth, tmp_path: Path) -> None:
    """One that nothing has is a mistake of the command line."""
    one = hearth("workflows", "test", copied(tmp_path), "--name", "empty text")
    none = hearth("workflows", "test", copied(tmp_path), "--name", "no such test")

    assert one.output.splitlines()[-1] == "1 passed, 0 failed."
    assert (none.exit_code, none.output.strip()) == (2, "No test has this name.")
