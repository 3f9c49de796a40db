"""Findings of ruff that it can repair itself, for a test command that is ruff."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Final

from pipecatapp.tools.code.edit.edit import edits_of_files
from pipecatapp.tools.code.edit.reading.answer import parse_answer
from pipecatapp.tools.code.edit.transaction import Change
from pipecatapp.tools.code.program import execute
from pipecatapp.tools.code.testing.suite import Suite
from pipecatapp.workflow import Context

FIXED_BY_RUFF: Final = ("check", "format")


async def linted(
    ctx: Context, suite: Suite, may_touch: Sequence[str], protected: Sequence[str]
) -> list[Change]:
    """Return the safe fixes of ruff in files that may be changed; nothing for other commands.

    ruff shows them as a diff, so no file changes here. Raises `ToolFailed`.
    """
    words = with_diff(suite.words)
    if words is None:
        return []
    ended = await execute(ctx, replace(suite, words=words).errand(), suite.root, suite.packages)
    blocks = [
        replace(block, path=str(PurePosixPath(suite.folder, block.path)))
        for block in parse_answer(ended.stdout.text, "").blocks
    ]
    edits, _ = await edits_of_files(ctx, suite.root, blocks, may_touch, protected)
    return [one.change for one in edits if one.change.before != one.change.after]


def with_diff(words: Sequence[str]) -> list[str] | None:
    """Return the command with which ruff shows its fixes as a diff.

    None for a command that is not `ruff check` or `ruff format`.
    """
    for at, word in enumerate(words[:-1]):
        is_program = at == 0 or words[at - 1] in ("-m", "run", "exec")
        if is_program and PurePosixPath(word).name == "ruff" and words[at + 1] in FIXED_BY_RUFF:
            kept = [one for one in words[at + 2 :] if one not in ("--check", "--diff", "--fix")]
            return [*words[: at + 2], "--diff", *kept]
    return None
