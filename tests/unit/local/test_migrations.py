"""State directories of every age: what is refused, backed up, migrated, and what is new."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from hearth.local.errors import StateDamaged, StateTooNew
from hearth.local.state.migrations import (
    MIGRATIONS,
    Migration,
    back_up,
    bring_up_to_date,
    state_version,
)
from hearth.service.state import STATE_VERSION, StateDir


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    return StateDir(tmp_path)


def write(*names: str) -> Migration:
    """A migration to version `len(names)` that leaves a file, so that its order can be seen."""

    def apply(state: StateDir) -> None:
        with (state.root / "steps").open("a", encoding="ascii") as file:
            file.write(f"{names[-1]}\n")

    return Migration(len(names), f"step {names[-1]}", apply)


def test_newest_migration_leads_to_the_version_that_services_know() -> None:
    """A step that was forgotten would leave old state under a new number."""
    assert [step.to for step in MIGRATIONS] == list(range(1, STATE_VERSION + 1))


def test_empty_directory_becomes_one_of_the_newest_version(state: StateDir) -> None:
    """There is nothing to back up on the first start."""
    (state.models / "smollm2").mkdir(parents=True)

    assert state_version(state) is None
    assert bring_up_to_date(state) is None
    assert state_version(state) == STATE_VERSION
    assert not (state.root / "backups").exists()


def test_directory_of_the_newest_version_is_left_alone(state: StateDir) -> None:
    """Every start but the first one after an update."""
    state.version_file.write_text(f"{STATE_VERSION}\n", encoding="ascii")

    assert bring_up_to_date(state) is None
    assert [path.name for path in state.root.iterdir()] == ["version"]


def test_steps_are_applied_in_order_from_the_version_found(state: StateDir) -> None:
    """A directory that skipped two releases goes through both."""
    state.version_file.write_text("1\n", encoding="ascii")
    steps = [write("a"), write("a", "b"), write("a", "b", "c")]
    migrated = bring_up_to_date(state, steps)

    assert migrated is not None
    assert migrated.found == 1
    assert migrated.steps == ("step b", "step c")
    assert (state.root / "steps").read_text(encoding="ascii") == "b\nc\n"
    assert state_version(state) == 3


def test_interrupted_migration_goes_on_at_the_step_that_was_not_done(state: StateDir) -> None:
    """A power cut in the middle must not skip a step."""
    state.version_file.write_text("0\n", encoding="ascii")

    def breaks(state: StateDir) -> None:
        raise OSError(5, "the power went")

    with pytest.raises(OSError, match="the power went"):
        bring_up_to_date(state, [write("a"), Migration(2, "breaks", breaks)])
    assert state_version(state) == 1
    bring_up_to_date(state, [write("a"), write("a", "b")])

    assert (state.root / "steps").read_text(encoding="ascii") == "a\nb\n"


def test_newer_directory_is_refused_untouched(state: StateDir) -> None:
    """What a newer Hearth wrote is not ours to guess at."""
    state.version_file.write_text("7\n", encoding="ascii")
    with pytest.raises(StateTooNew) as caught:
        bring_up_to_date(state)

    assert (caught.value.found, caught.value.known) == (7, STATE_VERSION)
    assert [path.name for path in state.root.iterdir()] == ["version"]


@pytest.mark.parametrize("content", [b"", b"v1", b"-1", b"\xff"])
def test_version_that_is_no_number_is_damage(state: StateDir, content: bytes) -> None:
    """An emptied file after a crash must not count as version 0."""
    state.version_file.write_bytes(content)
    with pytest.raises(StateDamaged):
        state_version(state)


def test_backup_holds_what_cannot_be_had_again_and_only_that(state: StateDir) -> None:
    """Copying 20 GB of model files at every update would fill the disk."""
    moment = ("instance.json", "gateway-instances.json", "lock", "logs/a.log")
    for name in ("key", "expert.json", "models/m/m.gguf", *moment):
        (state.root / name).parent.mkdir(parents=True, exist_ok=True)
        (state.root / name).write_text(name, encoding="ascii")
    backup = back_up(state, 0)

    assert backup.name.startswith("version-0-")
    assert sorted(path.name for path in backup.iterdir()) == ["expert.json", "key"]


def test_backup_holds_a_workspace_whole_whatever_its_files_are_called(state: StateDir) -> None:
    """`app/models` is somebody's work, and a `.db` that is no database of ours stops no update."""
    work = state.root / "workspaces" / "shop"
    for name in ("app/models/user.py", "logs/kept.txt", "lock", "thumbs.db"):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(name, encoding="ascii")
    copy = back_up(state, 0) / "workspaces" / "shop"

    found = sorted(str(path.relative_to(copy)) for path in copy.rglob("*") if path.is_file())
    assert found == ["app/models/user.py", "lock", "logs/kept.txt", "thumbs.db"]


def test_backup_of_a_database_in_use_holds_every_committed_row(state: StateDir) -> None:
    """A copied file without its write-ahead log would lose the newest runs."""
    with closing(sqlite3.connect(state.ledger)) as ledger:
        ledger.execute("PRAGMA journal_mode=WAL")
        ledger.execute("CREATE TABLE run (id TEXT)")
        ledger.commit()
        ledger.execute("INSERT INTO run VALUES ('newest')")
        ledger.commit()
        backup = back_up(state, 0)

    assert sorted(path.name for path in backup.iterdir()) == ["ledger.db"]
    with closing(sqlite3.connect(backup / "ledger.db")) as copy:
        assert copy.execute("SELECT id FROM run").fetchall() == [("newest",)]


def test_damaged_database_stops_the_migration_and_leaves_no_half_backup(state: StateDir) -> None:
    """A backup that cannot be restored is worse than none."""
    state.ledger.write_bytes(b"this is no database" * 100)
    with pytest.raises(StateDamaged, match=r"ledger\.db is damaged"):
        bring_up_to_date(state)

    assert list((state.root / "backups").iterdir()) == []
    assert not state.version_file.exists()
