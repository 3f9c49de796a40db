"""A log of findings and repairs on the controller, one JSON object per line."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


def append(file: Path, event: str, **what: Any) -> None:
    """Add one line: `time` (ISO 8601, UTC), `event`, and what is given."""
    file.parent.mkdir(parents=True, exist_ok=True)
    line: Mapping[str, Any] = {"time": datetime.now(UTC).isoformat(), "event": event, **what}
    with file.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(line, sort_keys=True) + "\n")


def read(file: Path) -> list[dict[str, Any]]:
    """Every line, oldest first; empty without a file."""
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
