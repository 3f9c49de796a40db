"""The tool `image.diagram` in runs of the real engine."""

import json
from pathlib import Path

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.tools.images.png import metadata
from pipecatapp.workflow import Context, ToolFailed
from tests.integration.tools.conftest import Opened
from tests.integration.tools.images.conftest import files, outcome

FLOW = """
kind: workflow
id: flow
about: A flow with a character that no font has.
outputs: {picture: "{{ draw }}"}
steps:
- id: draw
  use: image.diagram
  with:
    kind: flow
    path: flow.png
    title: "\U0001e900"
    edges: [{from: read, to: check, label: text}, {from: check, to: read, dashed: true}]
"""


async def test_flow_is_in_the_workspace_with_its_data(opened: Opened, tmp_path: Path) -> None:
    """The data in the metadata draws it again; what has no font is reported."""
    async with opened(FLOW) as engine:
        picture = await outcome(engine, "flow", {})

    facts = metadata(files(tmp_path, "flow.png")[0].read_bytes())
    assert json.loads(facts["prompt"])["edges"][0] == {
        "from": "read",
        "to": "check",
        "label": "text",
    }
    assert "fonts-noto-core" in picture["note"]


async def test_empty_diagram_is_reported(tmp_path: Path) -> None:
    """An agent reads the sentence and corrects its input."""
    with pytest.raises(ToolFailed, match="There is nothing to draw"):
        await TOOLS["image.diagram"].check(
            Context(workspace=tmp_path), {"kind": "flow", "path": "a.png"}
        )
