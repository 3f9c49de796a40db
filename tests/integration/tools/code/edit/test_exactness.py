"""Properties of `code.edit`: whatever an answer looks like, the true file or a refusal."""

import asyncio
import random
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context
from tests.benchmarks.code.answers import KINDS, damaged
from tests.benchmarks.code.rendering import PATH, TrueEdit

EDIT = TOOLS["code.edit"]
ROOT = Path(__file__).parents[5]
FILES = sorted((ROOT / "pipecatapp" / "tools").rglob("*.py"))
KNOWN = [kind for kind in KINDS if not kind.endswith(("elided", "stale"))]
"""An answer with code left out is no true edit; one for an older file can fit by accident."""


def changed(lines: list[str], chance: random.Random) -> list[str]:
    """Some lines removed, repeated from elsewhere in the file, moved or indented."""
    new = list(lines)
    for _ in range(chance.choice((1, 1, 2, 3))):
        at = chance.randrange(len(new))
        end = min(len(new), at + chance.randrange(4))
        source = chance.randrange(len(lines))
        copied = lines[source : source + chance.randrange(5)]
        shift = chance.choice(("", "", "    "))
        new[at:end] = [shift + line if line else line for line in copied] or ["extra = 1"]
    return new


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    file=st.sampled_from([file for file in FILES if file.stat().st_size > 400]),
    kind=st.sampled_from(KNOWN),
    seed=st.integers(0, 2**32),
)
def test_true_edit_in_any_form_gives_the_true_file_or_a_refusal(
    file: Path, kind: str, seed: int
) -> None:
    """Zero answers applied wrongly is the goal above all others."""
    chance = random.Random(seed)
    old = file.read_text(encoding="utf-8").split("\n")[:-1]
    edit = TrueEdit(old, changed(old, chance))
    case = damaged(edit, kind, chance) if edit.new != edit.old else None
    if case is None:
        return
    with tempfile.TemporaryDirectory() as name:
        (target := Path(name, PATH)).write_bytes(case.file)
        result = asyncio.run(EDIT.check(Context(workspace=Path(name)), {"answer": case.answer}))

        expected = case.expected if result["applied"] else case.file
        assert target.read_bytes() == expected, case.answer
        assert result["applied"] == (not result["refusals"])


LINES = [
    "a.py", "<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE", "```", "```python", "```diff", "",
    "--- a/a.py", "+++ b/a.py", "@@ -1 +1 @@", "-x = 1", "+x = 2", " y = 3", "x = 1", "....",
    "a.py::f", "def f():", "    return 1", "\\ No newline at end of file", "/dev/null",
    "--- /dev/null", "diff --git a/a.py b/a.py", "index 1234567..1234567",
]  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(parts=st.lists(st.sampled_from(LINES), max_size=14))
def test_no_text_breaks_the_tool(parts: list[str]) -> None:
    """Models write anything; a broken answer is a refusal, never an error or half an edit."""
    before = b"x = 1\ny = 3\n\n\ndef f():\n    return 1\n"
    with tempfile.TemporaryDirectory() as name:
        (target := Path(name, "a.py")).write_bytes(before)
        result = asyncio.run(
            EDIT.check(Context(workspace=Path(name)), {"answer": "\n".join(parts)})
        )

        after = target.read_bytes() if target.exists() else b""
        assert (after != before) == any(one["path"] == "a.py" for one in result["files"])
        assert result["applied"] == (not result["refusals"])
