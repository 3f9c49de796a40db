"""The ledger file: who may write it, how it ages, and what a disk that fails does to it."""

import asyncio
import math
import os
import re
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from pipecatapp.records import notes
from pipecatapp.workflow import (
    DiskFull,
    Engine,
    Ledger,
    LedgerBusy,
    LedgerFailed,
    LedgerTooNew,
    load_document,
)
from pipecatapp.workflow.ledger import schema, writer
from tests.rules import tree
from tests.unit.workflow.conftest import OpenEngine
from tests.unit.workflow.tools import TOOLS, Gates

ROOT = Path(__file__).parents[3]
ECHO = """
id: echo
inputs: {text: text}
steps:
  - {id: loud, use: text.upper, with: {text: "{{ inputs.text }}"}}
  - {id: again, use: text.upper, with: {text: "{{ loud.text }}"}}
outputs: {text: "{{ again.text }}"}
"""
HOLD = """
import asyncio, sys
from pathlib import Path
from pipecatapp.workflow import Engine, Ledger

async def main():
    async with Engine(Ledger(Path(sys.argv[1])), tools=()):
        print("held", flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""


@contextmanager
def held_by_another(path: Path) -> Iterator["subprocess.Popen[str]"]:
    """A second process that executes runs in the ledger at `path`."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        yield other
        other.kill()


async def test_second_process_is_refused_and_told_who_is_there(tmp_path: Path) -> None:
    """Two processes must never resume the same run; whoever comes second knows what to stop."""
    path = tmp_path / "ledger.db"

    with held_by_another(path) as other, closing(Ledger(path)) as ledger:
        with pytest.raises(LedgerBusy, match=rf"in use by process {other.pid} on .* since 20"):
            async with Engine(ledger, tools=TOOLS):
                pass
        assert notes.find(ledger, "") == []


async def test_copy_of_a_ledger_opens_while_the_original_is_in_use(tmp_path: Path) -> None:
    """One looks into a copy, or tries something with it, without stopping the house."""
    path, copy = tmp_path / "ledger.db", tmp_path / "copy.db"

    with held_by_another(path):
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)
        with closing(Ledger(copy)) as ledger:
            async with Engine(ledger, tools=TOOLS) as engine:
                assert await engine.resume_unfinished() == []
        with closing(Ledger(path)) as ledger, pytest.raises(LedgerBusy):
            async with Engine(ledger, tools=TOOLS):
                pass


@pytest.mark.parametrize("page", [0, 3])
async def test_damaged_ledger_is_reported_at_the_start_with_its_remedy(
    tmp_path: Path, page: int
) -> None:
    """Without this, each run that came to the damaged page failed for itself, days later; the first
    page is what SQLite itself looks at."""
    path = tmp_path / "ledger.db"
    with closing(Ledger(path)) as ledger:
        async with Engine(ledger, tools=TOOLS):
            await notes.save(ledger, "x" * 10_000)
    _change(path, "PRAGMA wal_checkpoint(TRUNCATE)")
    with path.open("r+b") as file:
        file.seek(page * 4096)
        file.write(b"\xa5" * 4096)

    async def start() -> None:
        with closing(Ledger(path)) as ledger:
            async with Engine(ledger, tools=TOOLS):
                pass

    with pytest.raises(LedgerFailed, match=r"ledger\.db is damaged: .*`hearth restore FILE`"):
        await start()


async def test_lease_of_a_killed_process_ends_at_once(tmp_path: Path) -> None:
    """After a crash on the same machine nobody waits for a timeout."""
    path = tmp_path / "ledger.db"
    with held_by_another(path) as other:
        other.send_signal(signal.SIGKILL)
        other.wait()

    with closing(Ledger(path)) as ledger:
        async with Engine(ledger, tools=TOOLS) as engine:
            assert await engine.resume_unfinished() == []


async def test_lease_from_elsewhere_ends_with_its_heartbeat(tmp_path: Path) -> None:
    """A process on another host cannot be looked at; its silence has to do."""
    path = tmp_path / "ledger.db"
    with closing(Ledger(path)) as ledger:
        take = """INSERT INTO lease VALUES
            (1, 'x', 'elsewhere', 'far', 1, '1', '2026-01-01', unixepoch() - ?)"""
        _change(path, take, (5,))
        with pytest.raises(LedgerBusy, match="process 1 on far"):
            async with Engine(ledger, tools=TOOLS):
                pass

        _change(path, "UPDATE lease SET heartbeat = unixepoch() - 60")
        async with Engine(ledger, tools=TOOLS):
            pass


async def test_process_that_writes_nothing_keeps_its_lease_fresh(tmp_path: Path) -> None:
    """A run that waits over the weekend must not look like a dead process to another host."""
    path = tmp_path / "ledger.db"
    with closing(Ledger(path, heartbeat=0.05)) as ledger, closing(Ledger(path)) as other:
        async with Engine(ledger, tools=TOOLS):
            _change(path, "UPDATE lease SET heartbeat = 0, place = 'elsewhere'")
            async with asyncio.timeout(60):
                while ledger.read.rows("SELECT heartbeat FROM lease")[0][0] == 0:  # noqa: ASYNC110 (a thread writes it)
                    await asyncio.sleep(0.01)
            with pytest.raises(LedgerBusy):
                async with Engine(other, tools=TOOLS):
                    pass


async def test_process_that_was_taken_over_writes_nothing_more(open_engine: OpenEngine) -> None:
    """One that slept too long (a suspended machine) must not write between the lines of another."""
    gates = Gates()
    engine: Engine = await open_engine(
        "id: held\nsteps: [{id: a, use: gate.pass, with: {name: a}}]", services={Gates: gates}
    )
    run = await engine.start("held", {})
    await gates.at("a")[0].wait()
    _change(engine.ledger.path, "UPDATE lease SET owner = 'somebody else'")

    gates.at("a")[1].set()
    result = await engine.wait(run)

    assert (result.status, "taken the ledger over" in (result.error or "")) == ("failed", True)
    assert engine.run(run).status == "running"
    with pytest.raises(LedgerFailed, match="taken the ledger over"):
        await notes.save(engine.ledger, "too late")


async def test_ledger_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    """An older program must not damage what it does not understand."""
    path = tmp_path / "ledger.db"
    Ledger(path).close()
    _change(path, "PRAGMA user_version = 99")

    with pytest.raises(LedgerTooNew, match="has format 99 of a newer Hearth; this one knows"):
        Ledger(path)


def test_older_ledger_is_copied_beside_itself_and_migrated(tmp_path: Path) -> None:
    """An update never costs a person's history, even if the update itself goes wrong."""
    path = tmp_path / "ledger.db"
    Ledger(path).close()
    _change(path, "INSERT INTO note (id, at, text, tags) VALUES ('1', '2026', 'kept', '[]')")
    later = (*schema.MIGRATIONS, ("ALTER TABLE note ADD COLUMN pinned INTEGER",))

    schema.prepare(path, patience=1, migrations=later)

    now = len(schema.MIGRATIONS)
    before = f"{path}.format-{now}"
    with closing(sqlite3.connect(path)) as new, closing(sqlite3.connect(before)) as old:
        assert new.execute("PRAGMA user_version").fetchone() == (now + 1,)
        assert new.execute("SELECT text, pinned FROM note").fetchall() == [("kept", None)]
        assert old.execute("PRAGMA user_version").fetchone() == (now,)
        assert old.execute("SELECT text FROM note").fetchall() == [("kept",)]


def test_migration_that_fails_changes_nothing(tmp_path: Path) -> None:
    """Half a migration would be a ledger of no version."""
    path = tmp_path / "ledger.db"
    Ledger(path).close()
    wrong = (*schema.MIGRATIONS, ("ALTER TABLE note ADD COLUMN a", "ALTER TABLE absent ADD b"))

    with pytest.raises(LedgerFailed, match="could not be brought up to date: no such table"):
        schema.prepare(path, patience=1, migrations=wrong)

    Ledger(path).close()


@pytest.mark.parametrize(
    ("content", "message"),
    [("This is a letter, not a database. " * 50, "file is not a database"), (None, "another")],
)
def test_file_of_another_kind_is_left_alone(
    tmp_path: Path, content: str | None, message: str
) -> None:
    """A wrong path in the settings must not cost somebody's file."""
    path = tmp_path / "letter"
    if content is None:
        with closing(sqlite3.connect(path)) as other:
            other.execute("CREATE TABLE letters (text)")
    else:
        path.write_text(content)
    before = path.read_bytes()

    with pytest.raises(LedgerFailed, match=message):
        Ledger(path)

    assert content is None or path.read_bytes() == before


def test_ledger_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    """It holds what people said to their assistant."""
    mask = os.umask(0)
    try:
        with closing(Ledger(tmp_path / "ledger.db")):
            modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    finally:
        os.umask(mask)

    assert set(modes.values()) == {0o600}


def test_ledger_is_synchronous_and_in_wal_mode(tmp_path: Path) -> None:
    """`started` on the disk means on the disk, and readers never wait."""
    with closing(Ledger(tmp_path / "ledger.db")) as ledger:
        assert ledger.read.rows("PRAGMA journal_mode")[0][0] == "wal"
        assert ledger.read.rows("PRAGMA synchronous")[0][0] == 2
        names = {row[0] for row in ledger.read.rows("SELECT name FROM sqlite_master")}
    wanted = "run step event inbox blob cache conversation note doc_fts lease".split()  # noqa: SIM905
    assert names.issuperset(wanted)


def test_every_table_is_read_and_written(tmp_path: Path) -> None:
    """What nobody uses is carried through every backup, and promises what is not there."""
    with closing(Ledger(tmp_path / "ledger.db")) as ledger:
        told = "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type != 'shadow'"
        names = {row[0] for row in ledger.read.rows(told)}
        triggers = ledger.read.rows("SELECT sql FROM sqlite_master WHERE type = 'trigger'")
    names = {name for name in names if not name.startswith("sqlite_")}
    product = [file for file in tree.product() if file.name != "schema.py"]
    code = "\n".join(tree.text(file) for file in product if file.suffix == ".py")
    code += "\n".join(row[0] for row in triggers)

    for what in (r"(FROM|JOIN)", r"(INTO|UPDATE)"):
        used = {name for name in names if re.search(rf"\b{what}\s+{name}\b", code)}
        assert names - used == set(), what


async def test_run_that_needs_room_pauses_and_goes_on_when_there_is_some(
    open_engine: OpenEngine,
) -> None:
    """A person who makes room has nothing to start again, and what fits is written meanwhile."""
    gates, full = Gates(), asyncio.Queue[bool]()
    engine: Engine = await open_engine(
        """
id: grow
inputs: {text: text}
steps:
  - {id: wait, use: gate.pass, with: {name: "{{ inputs.text[:5] }}"}}
  - {id: loud, use: text.upper, with: {text: "{{ inputs.text }}"}}
outputs: {text: "{{ loud.text }}"}
""",
        services={Gates: gates},
    )
    engine.ledger.on_full = full.put_nowait
    run = await engine.start("grow", {"text": "x" * 50_000})
    small = await engine.start("grow", {"text": "small"})
    await gates.at("xxxxx")[0].wait()
    writing = engine.ledger._connection
    pages = writing.execute("PRAGMA page_count").fetchone()[0]
    writing.execute(f"PRAGMA max_page_count = {pages + 5}")

    gates.at("xxxxx")[1].set()

    assert await full.get() is True
    gates.at("small")[1].set()
    assert (await engine.wait(small)).status == "done"
    assert engine.run(run).status == "running"
    with pytest.raises(DiskFull):
        await engine.start("grow", {"text": "late"})
    writing.execute("PRAGMA max_page_count = 1000000")
    assert (await engine.wait(run)).outputs == {"text": "X" * 50_000}
    assert await full.get() is False


async def test_locked_ledger_fails_the_run(tmp_path: Path) -> None:
    """A backup program that holds the file for too long shows as a failed run, not as silence."""
    path = tmp_path / "ledger.db"
    ledger = Ledger(path, patience=0.1)
    async with Engine(ledger, tools=TOOLS) as engine:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(LedgerFailed, match="database is locked"):
                await notes.save(engine.ledger, "x")
            other.execute("ROLLBACK")
        assert (await notes.save(engine.ledger, "y")).text == "y"
    ledger.close()


@pytest.mark.parametrize("quick", [True, False])
async def test_end_of_a_step_and_start_of_the_next_share_a_commit(
    open_engine: OpenEngine, monkeypatch: pytest.MonkeyPatch, *, quick: bool
) -> None:
    """A durable step costs one write to the disk, whoever commits; and no more is waited for."""
    monkeypatch.setattr(writer, "QUICK", math.inf if quick else 0.0)
    monkeypatch.setattr(writer, "QUICK_ONES", 0 if quick else 1)
    engine: Engine = await open_engine(ECHO)
    said: list[str] = []
    engine.ledger._connection.set_trace_callback(said.append)

    result = await engine.wait(await engine.start("echo", {"text": "hi"}))

    assert result.outputs == {"text": "HI"}
    # The run begins, loud begins, loud ends and again begins, again ends, the run ends.
    # A thread that is late takes what has come meanwhile into the same commit.
    commits = said.count("COMMIT")
    assert commits == 5 if quick else 2 <= commits <= 5


async def test_locked_file_does_not_hold_the_loop_up(
    open_engine: OpenEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a quick disk the loop commits itself; while a backup program holds the file it goes on."""
    monkeypatch.setattr(writer, "QUICK", math.inf)
    engine: Engine = await open_engine(ECHO)
    monkeypatch.setattr(writer, "QUICK_ONES", 0)
    with closing(sqlite3.connect(engine.ledger.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        saving = asyncio.create_task(notes.save(engine.ledger, "x"))
        for _ in range(10):
            await asyncio.sleep(0)
        waited = saving.done()
        other.execute("ROLLBACK")

    assert (waited, (await saving).text) == (False, "x")


async def test_large_values_lie_beside_the_rows_and_once(open_engine: OpenEngine) -> None:
    """A megabyte that passes through ten nodes is stored once."""
    engine: Engine = await open_engine(ECHO)
    text = "HEARTH" * 50_000

    result = await engine.wait(await engine.start("echo", {"text": text}))

    assert result.outputs == {"text": text}
    view = engine.run(result.run)
    assert [step.output for step in view.steps] == [{"text": text}] * 2
    assert view.inputs == view.steps[0].input == {"text": text}
    sizes = engine.ledger.read.rows("SELECT size FROM blob WHERE size > 100000")
    assert len(sizes) == 2  # the request, and the value that everything else shares
    assert engine.ledger.read.rows("SELECT max(length(output)) FROM step")[0][0] < 100


async def test_text_that_unicode_forbids_ends_neither_run_nor_view(
    open_engine: OpenEngine,
) -> None:
    """Models write lone surrogates and nulls; a ledger that holds one from older times is shown
    with a question mark, because nobody can be sent half a character.
    """
    engine: Engine = await open_engine(ECHO)

    result = await engine.wait(await engine.start("echo", {"text": "a\ud800b\x00c"}))

    assert result.outputs == {"text": "A\ud800B\x00C"}
    assert engine.runs()[0].title == "a?b\x00c"
    assert "\\ud800" in engine.ledger.read.rows("SELECT outputs FROM run")[0][0]
    view = engine.run(result.run)
    assert (view.inputs, view.outputs) == ({"text": "a?b\x00c"}, {"text": "A?B\x00C"})
    view.model_dump_json().encode()


async def test_notes_are_found_by_their_words(open_engine: OpenEngine) -> None:
    """What a person told the assistant comes back by any of its words, best first."""
    engine: Engine = await open_engine()
    ledger = engine.ledger
    milk = await notes.save(ledger, "Buy milk and bread", ["shopping"])
    cafe = await notes.save(ledger, 'The café is called "Zum Löwen"; it opens at 9', ["places"])

    assert notes.find(ledger, "MILK") == [milk]
    assert notes.find(ledger, "what do I shop for: shopp") == [milk]
    assert notes.find(ledger, "cafe lowen") == [cafe]
    assert notes.find(ledger, "bread cafe opens") == [cafe, milk]
    assert notes.find(ledger, "rain") == []
    assert notes.find(ledger, "") == [cafe, milk]
    assert notes.find(ledger, "", limit=1) == [cafe]


@pytest.mark.parametrize(
    "query", ['"', "'", "a OR", "NOT", "body:milk", "mi*", "(", "a AND NEAR(b", "; DROP x", "\x00"]
)  # fmt: skip
async def test_no_query_is_an_error(open_engine: OpenEngine, query: str) -> None:
    """People and models write queries in words, never in the language of the index."""
    engine: Engine = await open_engine()
    await notes.save(engine.ledger, "milk")

    assert notes.find(engine.ledger, query) in ([], notes.find(engine.ledger, "milk"))


def _change(path: Path, sql: str, values: tuple[object, ...] = ()) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(sql, values)
        connection.commit()


async def test_clock_that_goes_back_does_not_disturb_the_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs are listed in the order in which they began, also after the clock was corrected."""
    path = tmp_path / "ledger.db"
    started: list[str] = []
    now = time.time_ns
    echo = load_document(ECHO, file="echo.yaml")
    for back in (0, 3600):
        monkeypatch.setattr(time, "time_ns", lambda back=back: now() - back * 10**9)
        with closing(Ledger(path)) as ledger:
            async with Engine(ledger, tools=TOOLS, workflows=[echo]) as engine:
                for _ in range(3):
                    started.append(await engine.start("echo", {"text": "x"}))
                await asyncio.gather(*(engine.wait(run) for run in started[-3:]))
                assert [run.id for run in engine.runs()] == started[::-1]
