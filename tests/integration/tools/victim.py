"""Kills a run that works in a folder before every one of its events is written, and after every
second one; and resumes each.

    python -m tests.integration.tools.victim FOLDER

As `tests.integration.workflow.victim` does, whose parts it uses: one JSON line a case.
"""

import asyncio
import json
import sqlite3
import sys
from pathlib import Path
from typing import Any

from tests.integration.tools.conftest import engine_in
from tests.integration.workflow.victim import Deadly, events, in_child

DOCUMENT = """
kind: workflow
id: appending
about: Every step adds to what the ones before have left, so that none may be lost or come twice.
steps:
  - {id: write, use: file.write, with: {path: log, text: "write\\n", mode: append}}
  - {id: ran, use: code.run, with: {language: sh, code: "echo run >> log; cat log"}}
  - id: wide
    workspace: fork
    steps:
      - {id: aside, use: file.write, with: {path: log, text: "aside\\n", mode: append}}
  - {id: last, use: file.read, with: {path: log}}
outputs: {ran: "{{ ran.stdout }}", last: "{{ last.text }}"}
"""


async def work(folder: Path) -> dict[str, Any]:
    """Run the document in a new ledger, or resume what an old one holds."""
    async with engine_in(folder, DOCUMENT) as engine:
        known = engine.runs()
        await engine.resume_unfinished()
        run = known[0].id if known else await engine.start("appending", {})
        return (await engine.wait(run)).model_dump()


def child(folder: Path, *, when: str = "", count: int = 0) -> int:
    """Run or resume in a process of its own, until its kill if there is to be one."""
    connect = sqlite3.connect

    def task() -> None:
        if when:
            Deadly.when, Deadly.count = when, count
            sqlite3.connect = lambda *args, **named: connect(*args, **named, factory=Deadly)  # type: ignore[assignment]
        (folder / "result").write_text(json.dumps(asyncio.run(work(folder))))

    return in_child(task)


def main(root: Path) -> None:
    (whole := root / "whole").mkdir()
    assert child(whole) == 0
    for when, step in (("before", 1), ("after", 2)):
        for count in range(1, len(events(whole)) + 1, step):
            (folder := root / f"{when}-{count}").mkdir()
            signal = child(folder, when=when, count=count)
            resumed = child(folder)
            told = {"when": when, "count": count, "signal": signal, "resumed": resumed}
            told["result"] = json.loads((folder / "result").read_text())
            sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
