"""How long runs are kept, and runs as JSON lines."""

import hashlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from pipecatapp.application import retention as keeping
from pipecatapp.workflow import Engine, NotImported
from tests.integration.workflow.test_forks import called, start
from tests.integration.workflow.test_questions import ASK, waiting
from tests.unit.workflow.conftest import OpenEngine

LATER = "2999-01-01T00:00:00.000Z"
LARGE = """
id: large
inputs: {text: text}
steps: [{id: loud, use: text.upper, with: {text: "{{ inputs.text }}"}}]
outputs: {text: "{{ loud.text }}"}
"""

MANY = """
id: many
limits: {nodes: 2000}
inputs: {texts: list of text}
steps: [{id: loud, for: "{{ inputs.texts }}", use: text.upper, with: {text: "{{ item }}"}}]
outputs: {count: "{{ loud.count }}"}
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


async def test_image_goes_with_the_last_run_that_has_it(
    open_engine: OpenEngine, tmp_path: Path
) -> None:
    """Two runs share an image; the search still finds the words beside it."""
    engine, ledger = await open_engine(LARGE), tmp_path / "ledger.db"
    image = f"data:image/png;base64,{'iVBORw0KGgo+/' * 1000}=="
    first = await start(engine, "large", text=f"samovar ![]({image})")
    second = await start(engine, "large", text=f"teapot ![]({image})")
    assert count(ledger, "blob_part") == 4  # request and inputs of both runs
    images = f"SELECT count(*) FROM blob WHERE size = {len(image.partition(',')[2])}"
    assert engine.ledger.read.rows(images)[0][0] == 1

    await keeping.prune(engine, before=LATER, keep=1)

    assert [run.id for run in engine.runs(text="teapot")] == [second.run]
    assert engine.runs(text="samovar") == []
    assert engine.run(second.run).inputs == {"text": f"teapot ![]({image})"}
    assert first.run not in {run.id for run in engine.runs()}

    await keeping.prune(engine, before=LATER, keep=0)

    assert count(ledger, "blob") == count(ledger, "blob_part") == 0


@pytest.mark.parametrize(
    "text",
    [
        "data:image/png;base64,@sha256:{hash}",
        "data:image/png;base64,{image} and data:image/png;base64,@sha256:{hash}",
        "data:image/png;base64,{image}=, data:image/png;base64,{image}=",
    ],
)
async def test_text_that_looks_like_a_reference_to_an_image_stays_as_it_is(
    open_engine: OpenEngine, text: str
) -> None:
    """What a person writes is read as written, whatever else the ledger has."""
    engine = await open_engine(LARGE)
    image = "A" * 9_000
    await start(engine, "large", text=f"data:image/png;base64,{image}")
    given = text.format(hash=hashlib.sha256(image.encode()).hexdigest(), image=image) + " " * 9000

    run = await start(engine, "large", text=given)

    assert engine.run(run.run).inputs == {"text": given}


def written(path: Path) -> int:
    """Bytes of the file with all that lies in its log."""
    with closing(sqlite3.connect(path)) as ledger:
        ledger.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path.stat().st_size


def plans(path: Path, sql: str, values: tuple[object, ...]) -> list[str]:
    """How SQLite goes about a statement."""
    with closing(sqlite3.connect(path)) as ledger:
        return [row[3] for row in ledger.execute(f"EXPLAIN QUERY PLAN {sql}", values)]


def instructions(path: Path, sql: str, values: tuple[object, ...]) -> int:
    """How many of its instructions SQLite needs for a statement, which is taken back."""
    count = 0

    def progressed() -> int:
        nonlocal count
        count += 1
        return 0

    with closing(sqlite3.connect(path)) as ledger:
        ledger.set_progress_handler(progressed, 1)
        ledger.execute(sql, values)
        ledger.set_progress_handler(None, 1)
        ledger.rollback()
    return count


async def test_removing_runs_looks_up_what_is_theirs_and_goes_through_nothing_else(
    open_engine: OpenEngine, tmp_path: Path
) -> None:
    """In a ledger of 10,000 runs, one statement kept every running run waiting for half a minute.

    Removing the same ten takes the same work, however many others there are."""
    engine, ledger = await open_engine(LARGE), tmp_path / "ledger.db"
    runs = [(await start(engine, "large", text=f"{n}" * 9_000)).run for n in range(1, 41)]
    _, before = keeping.removing(engine.ledger.read, runs[:10])
    work = [sum(instructions(ledger, *one) for write in before for one in write)]
    for n in range(41, 161):
        await start(engine, "large", text=f"{n}" * 9_000)
    _, after = keeping.removing(engine.ledger.read, runs[:10])
    work.append(sum(instructions(ledger, *one) for write in after for one in write))

    steps = [step for write in after for one in write for step in plans(ledger, *one)]
    assert not [step for step in steps if step.startswith("SCAN") and "json_each" not in step]
    assert work[1] < 1.5 * work[0]


async def test_no_write_of_a_prune_is_long_however_much_there_is_to_remove(
    open_engine: OpenEngine, tmp_path: Path
) -> None:
    """The writes of running runs have their turn between two of them."""
    engine, ledger = await open_engine(MANY), tmp_path / "ledger.db"
    run = (await start(engine, "many", texts=["x"] * 700)).run

    _, writes = keeping.removing(engine.ledger.read, [run])
    changed = []
    with closing(sqlite3.connect(ledger, isolation_level=None)) as connection:
        for write in writes:
            changes = connection.total_changes
            for sql, values in write:
                connection.execute(sql, values)
            changed.append(connection.total_changes - changes)

    assert max(changed) <= keeping.ROWS
    assert sum(changed) > 2 * keeping.ROWS
    assert {count(ledger, table) for table in ("run", "step", "event", "inbox", "cache")} == {0}


async def test_prune_gives_the_space_back_to_the_disk(
    open_engine: OpenEngine, tmp_path: Path
) -> None:
    """Who prunes because the disk is full needs the room now."""
    engine, ledger = await open_engine(LARGE), tmp_path / "ledger.db"
    for number in range(60):
        await start(engine, "large", text=f"{number:02}" * 20_000)
    full = written(ledger)

    await keeping.prune(engine, before=LATER, keep=1)

    assert engine.ledger.read.rows("PRAGMA freelist_count")[0][0] == 0
    assert written(ledger) < full / 4


async def test_run_that_waits_is_never_pruned_nor_what_it_came_from(
    open_engine: OpenEngine, tmp_path: Path
) -> None:
    """A question over the holidays is no rubbish."""
    engine: Engine = await open_engine(ASK)
    first = await answered(engine, await engine.start("ask", {}), "no")
    run = await engine.fork(first, at="sure")
    await waiting(engine, run)

    assert await keeping.prune(engine, before=LATER, keep=0) == []
    await answered(engine, run, "yes")

    assert (tmp_path / "log").read_text() == "before\nafter no\nafter yes\n"
    assert await keeping.prune(engine, before=LATER, keep=0) == [first, run]


async def answered(engine: Engine, run: str, said: str) -> str:
    """The run, ended after its question was answered."""
    await waiting(engine, run)
    await engine.answer(run, "sure", said, by="anna")
    assert (await engine.wait(run)).outputs == {"answer": said, "by": "anna"}
    return run


@pytest.mark.proves("002-33")
async def test_exported_run_is_the_same_in_another_ledger(open_engine: OpenEngine) -> None:
    """Every line is JSON; what is imported looks as it did, with its events, answers and notes."""
    here: Engine = await open_engine(LARGE, ASK)
    large = (await start(here, "large", text="x" * 20_000)).run
    asked = await here.start("ask", {})
    await waiting(here, asked)
    await here.note(asked, "be quick", by="bert")
    await answered(here, asked, "yes")
    lines = [line for run in (large, asked) for line in keeping.export(here, run)]

    there: Engine = await open_engine(file="other.db")
    taken = await keeping.import_runs(there, lines)

    assert taken == [large, asked]
    assert [json.loads(line)["table"] for line in lines][:2] == ["run", "step"]
    assert [there.run(run) for run in taken] == [here.run(run) for run in taken]
    assert told(there, taken) == told(here, taken)
    assert [kind for *_, kind, _ in told(there, taken)[1]] == ["note", "answer"]


def told(engine: Engine, runs: list[str]) -> tuple[list[object], list[tuple[object, ...]]]:
    """What happened in runs, and what came to them from people."""
    read = engine.ledger.read
    events = [event for run in runs for event in read.all_events(run, after=0)]
    came = read.rows("SELECT run, path, at, taken, kind, body FROM inbox ORDER BY id")
    return [(e.run, e.type, e.path, e.at, e.data) for e in events], [tuple(row) for row in came]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: ["{"], "line 1 is not valid JSON"),
        (lambda lines: ["[1]"], "line 1 is not a part of a run"),
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
        await keeping.import_runs(there, change(lines))  # type: ignore[operator]

    assert there.runs() == []
    with pytest.raises(NotImported, match="exists already"):
        await keeping.import_runs(here, lines)
