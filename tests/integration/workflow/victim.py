"""A program that lets runs be killed around every one of their events, and resumes them.

    python -m tests.integration.workflow.victim FOLDER effects|control

First one run is left alone. Then, for its every event K, a forked process is killed (SIGKILL) right
after the commit that holds event K, and another right before it, when what the event tells of has
happened and is not written. Each is resumed by a further process. Every case has a folder of its
own and gives one JSON line. In every second one the event loop itself commits, as on a quick disk,
in the others the writer's thread does.
"""

import asyncio
import json
import math
import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipecatapp.workflow import Engine, Ledger, ModelFacts, load_document
from pipecatapp.workflow.ledger import writer
from tests.unit.workflow.tools import TOOLS, Script, TakesTools

EFFECTS = """
id: all-effects
inputs: {text: text}
steps:
  - {id: loud, use: text.upper, with: {text: "{{ inputs.text }}"}}
  - id: wide
    graph:
      - {id: a, use: number.double, with: {value: 1}}
      - {id: b, use: number.double, with: {value: 2}}
      - id: c
        if: "{{ a.value > 100 }}"
        use: text.upper
        with: {text: never}
        else: [{id: d, use: workflow/inner, with: {n: "{{ a.value + b.value }}"}}]
  - {id: sent, use: log.append, with: {line: "sent {{ wide.d.value }}"}}
  - id: reply
    use: agent
    with: {text: "{{ loud.text }}", tools: [number.double, log.append]}
outputs: {text: "{{ loud.text }}", n: "{{ wide.d.value }}", reply: "{{ reply.text }}"}
"""
CONTROL = """
id: all-control
inputs: {many: list of integer}
steps:
  - id: each
    for: {each: "{{ inputs.many }}", parallel: 2}
    steps:
      - {id: twice, use: number.double, with: {value: "{{ item }}"}}
      - {id: sent, use: log.append, with: {line: "item {{ item }} is {{ twice.value }}"}}
  - id: grow
    until: "{{ grow.value > 6 }}"
    max: 5
    stuck_on: "{{ grow.value }}"
    use: number.double
    with: {value: "{{ prev.value or 2 }}"}
  - {id: draft, use: text.upper, with: {text: "{{ prev.draft.text or 'd' }}{{ loop.index }}"}}
  - {id: again, goto: draft, if: "{{ loop.index < 2 }}", max: 3}
  - id: risky
    retry: {times: 1, wait: 1ms}
    on_error: continue
    graph:
      - {id: bad, use: text.fail, with: {text: as planned}}
      - {id: good, use: workflow/inner, with: {n: 1}}
  - {id: past, goto: there, if: "{{ draft.text != '' }}"}
  - {id: over, use: text.upper, with: {text: never}}
  - {id: there, use: log.flaky, retry: 2, on_error: {goto: there, max: 1}}
  - {id: asked, use: person.ask, with: {text: "Go on?", choices: ["yes", "no"]}}
outputs:
  all: "{{ each.all | map(attribute='sent') | map(attribute='text') }}"
  grown: "{{ grow.last.value }} {{ grow.count }}"
  draft: "{{ draft.text }}"
  risky: "{{ first(risky.good.value, 'failed') }}"
  asked: "{{ asked.answer }}"
"""
INNER = """
id: inner
inputs: {n: integer}
steps: [{id: twice, use: number.double, with: {value: "{{ inputs.n }}"}}]
outputs: {value: "{{ twice.value }}"}
"""


class AnswerByTurn(Script):
    """A model whose answer depends only on what it is asked, as a repeated call needs it."""

    def __init__(self, log: Path) -> None:
        super().__init__()
        self._log = log
        self.replies = _ByTurn(self)  # type: ignore[assignment]


class _ByTurn:
    def __init__(self, script: Script) -> None:
        self._script = script

    def pop(self, _index: int) -> Any:
        turn = sum(m["role"] == "assistant" for m in self._script.asked[-1]["messages"])
        calls = [("number_double", {"value": 4}), ("log_append", {"line": "by the agent"})]
        return (f"turn {turn}.", calls) if turn == 0 else f"turn {turn}, done."


class Deadly(sqlite3.Connection):
    """A connection whose process dies around the commit that reaches a count of events."""

    when = ""
    count = 0

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        if sql != "COMMIT" or self._events() < self.count:
            return super().execute(sql, *values)
        if self.when == "after":
            super().execute(sql)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("killed processes do not go on")

    def _events(self) -> int:
        try:
            return int(super().execute("SELECT count(*) FROM event").fetchone()[0])
        except sqlite3.OperationalError:
            return 0


STARTS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "effects": ("all-effects", {"text": "hi"}, {}),
    "control": ("all-control", {"many": [1, 2, 3]}, {"asked": "yes"}),
}


async def work(folder: Path) -> dict[str, Any]:
    """Run the document in a new ledger, or resume what an old one holds."""
    ledger = Ledger(folder / "ledger.db")
    script = AnswerByTurn(folder)
    engine = Engine(
        ledger,
        tools=TOOLS,
        workflows=[load_document(text, file="victim.yaml") for text in (EFFECTS, CONTROL, INNER)],
        services={Script: script, ModelFacts: TakesTools(), Path: folder / "log"},
        roles={"default": "auto"},
    )
    async with engine:
        known = engine.runs()
        await engine.resume_unfinished()
        name, inputs, answers = STARTS[sys.argv[2]]
        run = (
            known[0].id
            if known
            else await engine.start(name, inputs, answers=answers, interactive=False)
        )
        result = await engine.wait(run)
    ledger.close()
    return result.model_dump()


def in_child(task: Callable[[], None]) -> int:
    """Do something in a forked process; gives the signal it died of, or 0."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        task()
        os._exit(0)
    return os.WTERMSIG(os.waitpid(child, 0)[1])


def killed(folder: Path, when: str, count: int) -> int:
    """Run until the kill."""
    folder.mkdir()
    connect = sqlite3.connect

    def task() -> None:
        Deadly.when, Deadly.count = when, count
        writer.QUICK, writer.QUICK_ONES = (math.inf, 0) if count % 2 else (0.0, 1)
        sqlite3.connect = lambda *args, **named: connect(*args, **named, factory=Deadly)  # type: ignore[assignment]
        asyncio.run(work(folder))

    return in_child(task)


def finished(folder: Path) -> dict[str, Any]:
    """Run or resume to the end."""
    folder.mkdir(exist_ok=True)
    result = folder / "result.json"
    signal_number = in_child(lambda: _keep(result, asyncio.run(work(folder))))
    assert signal_number == 0
    found: dict[str, Any] = json.loads(result.read_text())
    return found


def _keep(file: Path, result: dict[str, Any]) -> None:
    file.write_text(json.dumps(result))


def events(folder: Path) -> list[tuple[str, str, str]]:
    """The events of the ledger, as type, path and effect."""
    connection = sqlite3.connect(folder / "ledger.db")
    try:
        return connection.execute(
            "SELECT type, path, data ->> '$.effect' FROM event ORDER BY seq"
        ).fetchall()
    except sqlite3.OperationalError:
        return []
    finally:
        connection.close()


def log(folder: Path) -> list[str]:
    """What the external effects left behind."""
    file = folder / "log"
    return file.read_text().splitlines() if file.exists() else []


def case(folder: Path, when: str, count: int) -> dict[str, Any]:
    """One kill and its resume."""
    number = killed(folder, when, count)
    at_kill, log_at_kill = events(folder), log(folder)
    result = finished(folder)
    return {
        "when": when,
        "count": count,
        "signal": number,
        "at_kill": at_kill,
        "log_at_kill": log_at_kill,
        "result": result,
        "events": events(folder),
        "log": log(folder),
    }


def main(root: Path) -> None:
    whole = root / "whole"
    told = {"result": finished(whole), "events": events(whole), "log": log(whole)}
    sys.stdout.write(json.dumps(told) + "\n")
    for when in ("after", "before"):
        for count in range(1, len(told["events"]) + 1):
            found = case(root / f"{when}-{count}", when, count)
            sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
