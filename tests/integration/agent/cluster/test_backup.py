"""Backups of a running agent service, and what becomes of the state when one is restored."""

import os
import socket
import sqlite3
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest
from typer.testing import CliRunner

from hearth.cli import build_cli
from hearth.service.names import RESTORED
from hearth.service.state import StateDir
from pipecatapp.application.backup import (
    COMING,
    STAGED,
    ArchiveDamaged,
    apply_staged,
    stage,
    write_archive,
)
from tests.integration.agent.conftest import House
from tests.integration.local.conftest import wait_for
from tests.ports import free_ports
from tests.support.archives import unpack

EXTENDED_INPUTS = [
    "pipecatapp/application/backup.py", "pipecatapp/api/state/backup.py",
    "pipecatapp/cli/backup.py", "hearth/service/state.py",
]  # fmt: skip


class Kept:
    """The service as a process that is started again whenever it ends, as its keeper does."""

    def __init__(self, house: House) -> None:
        port = free_ports(1)[0]
        house.address = f"http://127.0.0.1:{port}"
        self.environment = {**os.environ, **house.environment(), "PIPECATAPP_PORT": str(port)}
        self.house, self.starts, self.over = house, 0, False
        self.child: subprocess.Popen[bytes] | None = None
        self.thread = threading.Thread(target=self._keep)
        self.thread.start()
        try:
            self.wait()
        except BaseException:
            self.end()
            raise

    def wait(self) -> None:
        ends = time.monotonic() + 120
        while time.monotonic() < ends:
            try:
                if httpx2.get(f"{self.house.address}/health", trust_env=False).is_success:
                    return
            except httpx2.TransportError:
                pass  # it is being started
            time.sleep(0.05)
        raise TimeoutError("The service is not up.")

    def end(self) -> None:
        self.over = True
        while self.thread.is_alive():
            # Again and again: one that was started at this very moment must end, too.
            if self.child is not None:
                self.child.terminate()
            self.thread.join(1)

    def _keep(self) -> None:
        while not self.over:
            self.starts += 1
            self.child = subprocess.Popen(
                [sys.executable, "-m", "pipecatapp"], env=self.environment
            )
            self.child.wait()


@pytest.fixture
def kept(empty_house: House) -> Iterator[Kept]:
    kept = Kept(empty_house)
    yield kept
    kept.end()


def runs(house: House) -> int:
    with house.client() as client:
        return len(client.get("/api/runs").raise_for_status().json()["runs"])


def hearth(house: House, folder: Path, *words: str) -> str:
    """A command that means this service as if it were a cluster; it must succeed."""
    (folder / "cluster-key").write_text(house.key)
    environment = {
        "HEARTH_CLUSTER_URL": house.address,
        "HEARTH_CLUSTER_KEY_FILE": str(folder / "cluster-key"),
    }
    done = CliRunner().invoke(build_cli(), list(words), env=environment)
    assert done.exit_code == 0, done.output
    return done.output


def test_live_instance_goes_back_to_what_it_was(kept: Kept, tmp_path: Path) -> None:
    """Yesterday's state is one command away, and what it replaces is not thrown away."""
    house, file = kept.house, tmp_path / "monday.tar.gz"
    assert house.ask("Before").status_code == 200
    hearth(house, tmp_path, "backup", str(file))
    assert house.ask("After").status_code == 200
    assert runs(house) == 2

    told = hearth(house, tmp_path, "restore", str(file))

    assert told.startswith("Restored the state of ")
    assert runs(house) == 1
    assert house.ask("Again").status_code == 200
    assert file.stat().st_mode & 0o077 == 0
    [saved] = (house.state / "backups").iterdir()
    with closing(sqlite3.connect(saved / "ledger.db")) as ledger:
        assert ledger.execute("SELECT count(*) FROM run").fetchone() == (2,)


def test_same_backup_is_restored_twice_and_both_times_what_was_there_is_kept(
    house: House, tmp_path: Path
) -> None:
    """Somebody tries it, works on, and goes back again; folders of both times have one name."""
    house.ask("Before")
    file, state = tmp_path / "b.tar.gz", StateDir(tmp_path / "state2")
    write_archive(StateDir(house.state), file)
    notes = state.root / "workflows" / "mine.yaml"
    for words in ("first", "second"):
        notes.parent.mkdir(parents=True)
        notes.write_text(words)
        stage(state, file, keys=True)
        assert apply_staged(state) is not None
        assert not notes.exists()

    kept = (state.root / "backups").glob("*/workflows/mine.yaml")

    assert sorted(one.read_text() for one in kept) == ["first", "second"]


@pytest.mark.extended
def test_restore_ends_no_process(kept: Kept, tmp_path: Path) -> None:
    """Nomad lets a task that ends again and again wait for minutes, and somebody who looks for the
    right backup restores again and again. Afterwards it ends as it did before."""
    house, file = kept.house, tmp_path / "monday.tar.gz"
    hearth(house, tmp_path, "backup", str(file))

    for number in range(1, 4):
        assert house.ask("After").status_code == 200
        hearth(house, tmp_path, "restore", str(file))
        # When it says so, it is so, also where the same backup was restored before.
        assert (runs(house), len([*(house.state / "backups").iterdir()])) == (0, number)

    assert kept.child is not None
    assert (kept.starts, kept.child.poll()) == (1, None)
    kept.over = True
    kept.child.terminate()
    assert kept.child.wait(60) == 0


def stops(client: httpx2.Client) -> bool:
    """Whether it says that it stops, or lets nobody in any more."""
    try:
        return not client.get("/health").is_success
    except httpx2.TransportError:
        return True


def test_service_that_is_stopped_during_a_restore_stops(kept: Kept, tmp_path: Path) -> None:
    """A machine that is switched off meanwhile must not wait for one that begins anew."""
    house, file = kept.house, tmp_path / "monday.tar.gz"
    hearth(house, tmp_path, "backup", str(file))
    assert kept.child is not None
    kept.over = True
    with closing(socket.create_connection(("127.0.0.1", urlsplit(house.address).port))) as slow:
        # Somebody is still sending when the restore comes: the service waits for it.
        slow.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n")
        with house.client() as client:
            client.post("/api/restore", content=file.read_bytes()).raise_for_status()
            wait_for(lambda: stops(client), "it drains")
        kept.child.terminate()

    assert kept.child.wait(60) == 0
    assert kept.starts == 1


@pytest.mark.extended
@pytest.mark.parametrize("damage", ["cut", "flipped", "foreign"])
def test_unusable_archive_changes_nothing(kept: Kept, tmp_path: Path, damage: str) -> None:
    """It is found before the state is touched, and the service is not even restarted."""
    house, file = kept.house, tmp_path / "broken.tar.gz"
    house.ask("Before")
    hearth(house, tmp_path, "backup", str(file))
    data = bytearray(file.read_bytes())
    if damage == "cut":
        data = data[: len(data) // 2]
    elif damage == "flipped":
        data[len(data) // 2] ^= 0xFF
    file.write_bytes(b"hello" if damage == "foreign" else bytes(data))

    with house.client() as client:
        refused = client.post("/api/restore", content=file.read_bytes())

    assert refused.status_code == 422
    assert refused.json()["error"]["code"] == "unusable_archive"
    assert runs(house) == 1
    assert kept.starts == 1
    assert [p.name for p in house.state.iterdir() if p.name.startswith(".")] == []


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.FIFOTYPE, tarfile.REGTYPE])
def test_archive_that_would_write_elsewhere_is_refused(tmp_path: Path, kind: bytes) -> None:
    """An archive that comes by mail must not become a file of the system, or a way to one."""
    file, state = tmp_path / "odd.tar.gz", StateDir(tmp_path / "mine")
    state.root.mkdir()
    with tarfile.open(file, "w:gz") as tar:
        odd = tarfile.TarInfo("../elsewhere" if kind == tarfile.REGTYPE else "within")
        odd.type, odd.linkname = kind, "/etc"
        tar.addfile(odd)

    with pytest.raises(ArchiveDamaged, match=r"elsewhere lies outside|within is neither"):
        stage(state, file, keys=False)

    assert not (tmp_path / "elsewhere").exists()


def test_archive_of_a_newer_hearth_is_refused(house: House, tmp_path: Path) -> None:
    """Tables that this version does not know would be read wrongly."""
    house.ask("Before")
    file, folder = tmp_path / "newer.tar.gz", tmp_path / "opened"
    write_archive(StateDir(house.state), file)
    unpack(file, folder)
    manifest = (folder / "manifest.json").read_text().replace('"ledger": ', '"ledger": 9')
    (folder / "manifest.json").write_text(manifest)
    with tarfile.open(file, "w:gz") as tar:
        tar.add(folder, arcname=".")

    with house.client() as client:
        refused = client.post("/api/restore", content=file.read_bytes())

    assert "which is newer" in refused.json()["error"]["message"]


def test_backup_leaves_out_what_can_be_had_again(house: House, tmp_path: Path) -> None:
    """Models are gigabytes; keys and documents are not to be had anywhere else."""
    state = StateDir(house.state)
    restored = f"keys.db{RESTORED}"
    for name in ("models/big/big.gguf", "logs/agent.log", "workflows/mine.yaml", restored):
        (house.state / name).parent.mkdir(parents=True, exist_ok=True)
        (house.state / name).write_text("x")

    manifest = write_archive(state, tmp_path / "b.tar.gz")

    assert sorted(manifest.files) == ["key", "ledger.db", "service_key", "workflows/mine.yaml"]


def test_restore_on_a_new_machine_brings_the_keys(house: House, tmp_path: Path) -> None:
    """Where nothing runs, programs that have the old key go on working."""
    house.ask("Before")
    file, root = tmp_path / "b.tar.gz", tmp_path / "new"
    write_archive(StateDir(house.state), file)

    done = CliRunner().invoke(build_cli(), ["restore", str(file), "--state-dir", str(root)])

    assert done.exit_code == 0, done.output
    assert (root / "key").read_text() == house.key
    with closing(sqlite3.connect(root / "ledger.db")) as ledger:
        assert ledger.execute("SELECT count(*) FROM run").fetchone() == (1,)
        assert ledger.execute("SELECT count(*) FROM lease").fetchone() == (0,)


def test_keys_that_people_made_stay_and_those_of_the_backup_lie_beside_them(
    house: House, tmp_path: Path
) -> None:
    """The gateway has them open, and knows whom it has let in and thrown out since."""
    house.ask("Before")
    old, new = StateDir(house.state), StateDir(tmp_path / "new")
    old.key_store.write_bytes(database(b"old"))
    file = tmp_path / "b.tar.gz"
    write_archive(old, file)
    new.root.mkdir()
    now = database(b"new")
    new.key_store.write_bytes(now)

    stage(new, file, keys=False)
    manifest = apply_staged(new)

    assert manifest is not None
    assert "keys.db" in manifest.files
    assert new.key_store.read_bytes() == now
    beside = Path(f"{new.key_store}{RESTORED}")
    with closing(sqlite3.connect(beside)) as keys:
        assert keys.execute("SELECT * FROM told").fetchall() == [(b"old",)]
    beside.unlink()
    new.key_store.unlink()
    stage(new, file, keys=False)
    apply_staged(new)
    with closing(sqlite3.connect(new.key_store)) as keys:
        assert keys.execute("SELECT * FROM told").fetchall() == [(b"old",)]
    assert not beside.exists()


def database(told: bytes) -> bytes:
    """A database that tells whose it is."""
    with closing(sqlite3.connect(":memory:")) as made, made:
        made.execute("CREATE TABLE told (word)")
        made.execute("INSERT INTO told VALUES (?)", (told,))
        made.commit()
        return made.serialize()


def test_power_cut_in_mid_restore_is_mended_by_the_next_start(house: House, tmp_path: Path) -> None:
    """Half of one state and half of another would be worse than either."""
    house.ask("Before")
    file, state = tmp_path / "b.tar.gz", StateDir(tmp_path / "state2")
    write_archive(StateDir(house.state), file)
    state.root.mkdir()
    for name in ("key", "service_key"):
        (state.root / name).write_text("own")
    stage(state, file, keys=False)
    (state.root / STAGED).rename(state.root / COMING)

    assert apply_staged(state) is not None
    assert apply_staged(state) is None

    assert (state.root / "key").read_text() == "own"
    assert (state.root / "ledger.db").exists()


def test_state_that_may_not_be_read_ends_the_start_with_a_sentence(empty_house: House) -> None:
    """A container that runs as the wrong user says so, instead of dying in silence."""
    house = empty_house
    (house.state / STAGED).mkdir()
    (house.state / STAGED / "manifest.json").mkdir()

    ended = subprocess.run(
        [sys.executable, "-m", "pipecatapp"],
        env={**os.environ, **house.environment(), "PIPECATAPP_PORT": str(free_ports(1)[0])},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip

    assert ended.returncode != 0
    assert f"{house.state} cannot be used" in ended.stderr
    assert "Traceback" not in ended.stderr
