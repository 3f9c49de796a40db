"""One call of a tool as a run: every tool can be called alone, by hand."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipecatapp.application.runs import Document, RunService
from pipecatapp.application.tool_runs import UnknownTool, inputs_for, workflow_for
from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Engine, InvalidInputs, Ledger


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[RunService]:
    """All tools, on a ledger of their own."""
    ledger = Ledger(tmp_path / "ledger.db")
    yield RunService(Engine(ledger, tools=TOOLS.values()))
    ledger.close()


@pytest.mark.parametrize("name", sorted(TOOLS))
def test_every_tool_is_a_workflow_with_its_own_inputs_and_outputs(
    runs: RunService, name: str
) -> None:
    """A form shows the fields of the tool, not those of the workflow that calls it."""
    planned = runs.planned(Document(tool=name))
    assert planned.diagnostics == []
    assert planned.inputs == TOOLS[name].input_schema()
    assert planned.outputs == TOOLS[name].output_schema()


def test_only_the_given_inputs_are_passed_on(runs: RunService) -> None:
    """The others have the tool's own defaults, also where null would mean something else."""
    text = workflow_for(TOOLS["file.read"], ["path"])
    assert "path" in text
    assert "encoding" not in text


def test_wrong_inputs_are_refused_before_a_run(runs: RunService) -> None:
    """The person who typed them corrects them at once."""
    with pytest.raises(InvalidInputs, match="path: Field required"):
        inputs_for(TOOLS["file.read"], {})
    with pytest.raises(UnknownTool, match=r"There is no tool 'file\.rid'\. Did you mean 'file"):
        runs.planned(Document(tool="file.rid"))
