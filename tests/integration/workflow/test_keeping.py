"""How long runs are kept, and runs as JSON lines."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from pipecatapp.library.runs import keeping
from pipecatapp.workflow import Engine, NotImported
from tests.integration.workflow.test_forks import called, start
from tests.unit.workflow.conftest import OpenEngine

LATER = "2999-01-01T00:00:00.000Z"
LARGE = """
id: large
inputs: {text: text}
steps: [{id: loud, use: text.upper, with: {text: "{{ inputs.text }}"}}]
outputs: {text: "{{ loud.text }}"}
"""


def count(path: Path, table: str) -> int:
    with closing(sqlite3.connect(path)) as ledger:
        return int(ledger.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


async def test_pruned_runs_are_gone_with_all_that_only_they_used(
    open_engine: OpenEngine, tmp_path: Path
) -> None:
    """The newest stay; what a later run took from a removed one is still there for it."""
    engine: Engine = await open_engine(LARGE)
    first = await start(engine, "large", text="a" * 20_000)
    other = await start(engine, "large", text="b" * 20_000)
    taking = await start(engine, "large", text="a" * 20_000)
    assert called(engine, taking) == {}
    before = count(tmp_path / "ledger.db", "blob")

    looked = await keeping.prune(engine, before=LATER, keep=1, look=True)
    removed = await keeping.prune(engine, before=LATER, keep=1)

    assert looked == removed == [first.run, other.run]
    assert [run.id for run in engine.runs()] == [taking.run]
    assert engine.run(taking.run).outputs == {"text": "A" * 20_000}
    assert count(tmp_path / "ledger.db", "blob") < before
    assert await keeping.prune(engine, before="2000-01-01T00:00:00.000Z", keep=0) == []
    again = await start(engine, "large", text="b" * 20_000)
    assert list(called(engine, again)) == ["loud"]


@pytest.mark.proves("002-33")
async def test_exported_run_is_the_same_in_another_ledger(open_engine: OpenEngine) -> None:
    """Every line is JSON; what is imported looks as it did, with all its events."""
    here: Engine = await open_engine(LARGE)
    run = await start(here, "large", text="x" * 20_000)
    lines = list(keeping.export(here, run.run))

    there: Engine = await open_engine(file="other.db")
    taken = await keeping.take_in(there, lines)

    assert taken == [run.run]
    assert [json.loads(line)["table"] for line in lines][:2] == ["run", "step"]
    assert there.run(run.run) == here.run(run.run)
    events = [
        [(e.type, e.path, e.at, e.data) for e in engine.ledger.read.all_events(run.run, after=0)]
        for engine in (here, there)
    ]
    assert events[0] == events[1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: ["{"], "line 1 is no JSON"),
        (lambda lines: ["[1]"], "line 1 is no part of a run"),
        (lambda lines: [lines[0].replace('"format": 1', '"format": 2')], "another format than 1"),
        (lambda lines: lines[1:], "line 1: its run comes before it"),
        (lambda lines: [lines[0].replace('"caller"', '"caller) --"')], "run has no 'caller"),
        (lambda lines: [lines[0].replace('"done"', '["done"]')], "a value is of a wrong kind"),
        (lambda lines: [*lines, lines[0]], None),
    ],
)
async def test_wrong_lines_import_nothing(
    open_engine: OpenEngine, change: object, message: str | None
) -> None:
    """An import is whole or it is not; what stands in a file never becomes SQL."""
    here: Engine = await open_engine(LARGE)
    run = await start(here, "large", text="x")
    lines = list(keeping.export(here, run.run))
    there: Engine = await open_engine(file="other.db")

    with pytest.raises(Exception if message is None else NotImported, match=message):
        await keeping.take_in(there, change(lines))  # type: ignore[operator]

    assert there.runs() == []
    with pytest.raises(NotImported, match="is here already"):
        await keeping.take_in(here, lines)
