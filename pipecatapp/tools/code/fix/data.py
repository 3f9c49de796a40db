"""JSON and YAML files that do not parse."""

import difflib
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from pipecatapp.sandbox.tree import open_plain, walk
from pipecatapp.tools.code.fix.problem import DEPTH, FILES, SKIPPED, Candidate
from pipecatapp.tools.fix.edits import LARGEST
from pipecatapp.tools.fix.json_text import repaired_json
from pipecatapp.tools.fix.yaml_text import repaired_yaml

JSON: Final = (".json", ".webmanifest")
YAML_NAMES: Final = (".yaml", ".yml")


def data(root: Path) -> Iterator[tuple[str, Candidate]]:
    """Yield repairs of all JSON and YAML files below a folder that do not parse.

    Each is the path and the whole file afterwards. A repaired file parses; whether it says what was
    meant is for a test to show. Raises `OSError`, and `TooLarge` for a folder that has too much.
    """
    entries = (one.path for one in walk(root, depth=DEPTH, skip=SKIPPED) if one.is_file)
    names = (path for path in entries if path.endswith((*JSON, *YAML_NAMES)))
    for path in islice(names, FILES):
        text = _read(root, path)
        if text is None:
            continue
        if path.endswith(JSON):
            if (repaired := repaired_json(text)) is not None:
                yield path, Candidate("json", _about(text, repaired), repaired)
        else:
            for repaired in repaired_yaml(text):
                yield path, Candidate("yaml", _about(text, repaired), repaired)


def _read(root: Path, path: str) -> str | None:
    """Return a file as text; None for one that is too large or not UTF-8."""
    with os.fdopen(open_plain(root, path), "rb") as stream:
        content = stream.read(LARGEST + 1)
    try:
        return content.decode() if len(content) <= LARGEST else None
    except UnicodeDecodeError:
        return None


def _about(before: str, after: str) -> str:
    """Describe the first line that changed, and say how many others did."""
    old, new = before.splitlines(), after.splitlines()
    parts = [
        part
        for part in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        if part[0] != "equal"
    ]
    if not parts:
        return "the end of the file or its byte order mark"
    _, start, end, first, last = parts[0]
    text = f"line {start + 1}: {_shown(old[start:end])} becomes {_shown(new[first:last])}"
    others = sum(max(part[2] - part[1], part[4] - part[3]) for part in parts[1:])
    return f"{text}, and {others} more" if others else text


def _shown(lines: list[str]) -> str:
    return repr(" ".join(line.strip() for line in lines))
