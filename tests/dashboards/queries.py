"""What the committed dashboards ask."""

import json

from tests.dashboards.__main__ import FOLDER


def queries() -> list[tuple[str, str]]:
    """Every query of the committed dashboards, with the title of its panel."""
    return [
        (f"{board['title']}: {panel['title']}", target["expr"])
        for file in sorted(FOLDER.glob("*.json"))
        for board in [json.loads(file.read_text(encoding="utf-8"))]
        for panel in board["panels"]
        for target in panel["targets"]
    ]
