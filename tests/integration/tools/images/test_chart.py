"""The tool `image.chart` in runs of the real engine."""

import json
from pathlib import Path

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.tools.images.png import metadata
from pipecatapp.workflow import Context, ToolFailed
from tests.integration.tools.conftest import Opened
from tests.integration.tools.images.conftest import files, outcome

WEEKS = """
kind: workflow
id: energy
about: A chart of each week.
inputs: {csv: text}
outputs: {picture: "{{ chart }}"}
steps:
- {id: meter, use: file.write, with: {path: meter.csv, text: "{{ inputs.csv }}"}}
- id: chart
  use: image.chart
  with: {kind: bar, path: weeks.png, file: meter.csv, every: week, title: Energy, y_title: kWh}
"""


@pytest.mark.proves("000-04")
async def test_chart_of_a_file_is_in_the_workspace_with_its_facts(
    opened: Opened, tmp_path: Path
) -> None:
    """No model is needed, and the same data gives the same bytes."""
    text = "day,kWh\n2026-03-02,5.5\n2026-03-03,6\n2026-03-09,7.25\n"
    sums = []
    async with opened(WEEKS) as engine:
        for _ in range(2):
            sums.append((await outcome(engine, "energy", {"csv": text}))["sha256"])

    facts = metadata(files(tmp_path, "weeks.png")[0].read_bytes())
    drawn = json.loads(facts["prompt"])
    assert drawn["labels"] == ["2026-03-02", "2026-03-09"]
    assert drawn["series"] == [{"name": "kWh", "values": [11.5, 7.25]}]
    assert (facts["model"], facts["seed"]) == ("hearth-drawing/1", "0")
    assert sums[0] == sums[1]


async def test_data_that_cannot_be_drawn_is_reported(tmp_path: Path) -> None:
    """An agent reads the sentence and corrects its input."""
    with pytest.raises(ToolFailed, match="There are no values"):
        await TOOLS["image.chart"].check(
            Context(workspace=tmp_path), {"kind": "bar", "path": "a.png"}
        )


async def test_file_that_is_no_table_is_reported(opened: Opened) -> None:
    """With the columns that it has."""
    async with opened(WEEKS) as engine:
        ended = await engine.wait(await engine.start("energy", {"csv": "a,b\nx,1\n"}))
    assert "'x' is not a date" in (ended.error or "")
