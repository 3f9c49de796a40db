"""Every example is run as a person runs it, and gives what is written beside it."""

import json
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from pipecatapp.application.documents.files import SHIPPED
from tests.integration.agent.conftest import House
from tests.integration.agent.examples import NAMES, ROOT, expected, read, run_example


@pytest.mark.proves("001-06", "001-40", "003-41")
@pytest.mark.parametrize("name", [name for name in NAMES if name != "whole-tour"])
def test_example_gives_the_expected_outputs_and_files(
    name: str, empty_house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The outputs, and each file of the branch, are those that were reviewed."""
    assert run_example(name, empty_house, tmp_path, monkeypatch) == expected(name)


@pytest.mark.proves("001-43")
def test_whole_tour_combines_models_tools_loops_a_person_and_real_programs(
    empty_house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two models are asked, a tool is chosen by one, a program fails and is repaired."""
    given = run_example("whole-tour", empty_house, tmp_path, monkeypatch)

    assert given == expected("whole-tour")
    assert {request.body["model"] for request in empty_house.model.requests} >= {"small", "large"}
    assert given["outputs"]["tries"] == 2
    assert "The program says 42." in given["outputs"]["text"]


LARGE = {"autonomy", "build-app", "coding-task", "coordinator", "fix-bug"}


def test_every_workflow_for_people_has_an_example() -> None:
    """Documentation that nobody runs becomes wrong."""
    library = {
        path.stem
        for path in (SHIPPED / "workflows").glob("*.yaml")
        if "library" in YAML(typ="safe").load(path.read_text(encoding="utf-8"))["tags"]
    }

    assert library | LARGE <= set(NAMES)
    for name in NAMES:
        assert read(name)["about"].endswith(".")
        assert json.loads((ROOT / name / "expected.json").read_text(encoding="utf-8"))
