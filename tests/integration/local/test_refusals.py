"""What keeps an instance from starting: one sentence that says what to do, and nothing started."""

import os
import shutil
import signal
import socket
import sqlite3
import subprocess
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from hearth.service.state import STATE_VERSION
from tests.integration.local.conftest import Tiny, Up

NAMESPACES = "" if os.geteuid() == 0 else "U"
"""Root may make namespaces as it is; others may as root of a namespace of their own."""


def assert_refused(up: Up, tiny: Tiny, *words: str) -> None:
    """Exit code 1, one sentence on standard error, no trace of a start."""
    assert up.ended() == 1
    assert "Traceback" not in up.err
    assert len(up.err.strip().splitlines()) == 1, up.err
    for word in words:
        assert word in up.err
    assert tiny.pids() == []
    assert not tiny.state.instance_file.exists()


def inside(script: str, *, flags: str) -> Sequence[str]:
    """A wrapper that runs a command in new namespaces, after a shell script."""
    if NAMESPACES:
        flags += "Ur"
    made = ["unshare", f"-{flags}", "sh", "-ec", f'{script}; exec "$@"', "sh"]
    allowed = subprocess.run([*made[:2], "true"], capture_output=True, check=False)
    if allowed.returncode != 0:
        pytest.skip("the kernel gives this user no namespaces")
    return made


@pytest.mark.parametrize("offset", [0, 80, 81])
def test_taken_port_is_named_with_its_holder(tiny: Tiny, offset: int) -> None:
    """The person must know what to stop, or which ports are free."""
    with socket.create_server(("127.0.0.1", tiny.port_base + offset)):
        up = tiny.up()

    assert_refused(
        up, tiny, f"Port {tiny.port_base + offset}, which", f"(pid {os.getpid()})", "--port-base"
    )
    assert not tiny.state.lock_file.exists()


def test_second_start_names_the_instance_that_runs(tiny: Tiny) -> None:
    """Two supervisors on one state directory would tear it apart; the first must not notice."""
    first = tiny.start()
    instance = tiny.running()
    second = tiny.up()

    assert second.ended() == 1
    assert tiny.web in second.err
    assert f"down --state-dir {tiny.state.root}" in second.err
    assert tiny.running() == instance
    first.send(signal.SIGINT)
    first.ended()
    tiny.assert_nothing_left()


@pytest.mark.parametrize("size", ["4k", "8m"])
def test_full_disk_is_told_with_what_is_needed(tiny: Tiny, size: str) -> None:
    """A ledger that cannot be written loses runs: better not to start."""
    root = tiny.state.root
    root.mkdir()
    tiny.wrapper = inside(
        f"mount -t tmpfs -o size={size} none {root}; "
        f"head -c 4096 /dev/zero >{root}/filler 2>/dev/null || true",
        flags="m",
    )
    up = tiny.up()

    assert_refused(up, tiny, f"The disk of {root} has", "Hearth needs 67 MB", "--state-dir")


def test_read_only_state_directory_is_told(tiny: Tiny) -> None:
    """A disk that was mounted read-only after an error is a common way to lose a server."""
    root = tiny.state.root
    root.mkdir()
    tiny.wrapper = inside(f"mount -t tmpfs -o ro none {root}", flags="m")
    up = tiny.up()

    assert_refused(up, tiny, f"{root} cannot be used (read-only file system)", "--state-dir")


def test_state_directory_of_somebody_else_is_told(tiny: Tiny) -> None:
    """A first start with sudo leaves a directory that the next one cannot write."""
    root = tiny.state.root
    root.mkdir(mode=0o500)
    tiny.wrapper = ["unshare", "-U"]
    up = tiny.up()

    assert_refused(up, tiny, f"{root} cannot be used (permission denied for", "it belongs to")


def test_file_in_place_of_the_state_directory_is_told(tiny: Tiny) -> None:
    """A path with a typing error must not end in a traceback."""
    tiny.state.root.write_text("", encoding="utf-8")
    up = tiny.up()

    assert_refused(up, tiny, f"{tiny.state.root} cannot be used (file exists)")


def test_newer_state_directory_is_left_as_it_is(tiny: Tiny) -> None:
    """Going back to an older Hearth must not destroy what a newer one wrote."""
    tiny.state.root.mkdir()
    tiny.state.version_file.write_text(f"{STATE_VERSION + 1}\n", encoding="utf-8")
    up = tiny.up()

    assert_refused(up, tiny, "newer Hearth", f"version is {STATE_VERSION + 1}", "update Hearth")
    assert [path.name for path in tiny.state.root.iterdir()] == ["version"]


def test_unreadable_version_is_told(tiny: Tiny) -> None:
    """Guessing the version of somebody's data is no way to treat it."""
    tiny.state.root.mkdir()
    tiny.state.version_file.write_text("one\n", encoding="utf-8")
    up = tiny.up()

    assert_refused(up, tiny, f"The file {tiny.state.version_file} is damaged", "'one'")


def test_older_state_directory_is_backed_up_and_migrated(tiny: Tiny) -> None:
    """An update keeps every run and every key, and the way back stays open."""
    state = tiny.state
    state.root.mkdir(mode=0o755)
    state.key_file.write_text("sk-hearth-old\n", encoding="utf-8")
    state.key_file.chmod(0o644)
    with closing(sqlite3.connect(state.ledger)) as ledger:
        ledger.execute("PRAGMA journal_mode=WAL")
        ledger.execute("CREATE TABLE run (id TEXT)")
        ledger.execute("INSERT INTO run VALUES ('kept')")
        ledger.commit()
        up = tiny.start()
        tiny.running()
        up.send(signal.SIGINT)
        assert up.ended() == 0

    (backup,) = (state.root / "backups").iterdir()
    assert f"A backup is in {backup}" in up.out
    with closing(sqlite3.connect(backup / "ledger.db")) as copy:
        assert copy.execute("SELECT id FROM run").fetchall() == [("kept",)]
    assert (backup / "key").read_text(encoding="utf-8") == "sk-hearth-old\n"
    assert state.key_file.read_text(encoding="utf-8") == "sk-hearth-old\n"
    assert state.key_file.stat().st_mode & 0o777 == 0o600
    assert state.root.stat().st_mode & 0o777 == 0o700
    assert state.version_file.read_text(encoding="ascii") == f"{STATE_VERSION}\n"


@pytest.fixture
def real(make_tiny: Callable[[], Tiny]) -> Tiny:
    """The real `hearth` command, for what is refused before anything is started."""
    tiny = make_tiny()
    tiny.module = "hearth"
    return tiny


def test_damaged_model_file_is_told_with_what_mends_it(real: Tiny) -> None:
    """A damaged model answers nonsense or crashes, and may be the sign of a failing disk."""
    folder = real.state.models / "smollm2"
    folder.mkdir(parents=True)
    (folder / "SmolLM2-135M-Instruct.Q4_1.gguf").write_bytes(b"GGUF damaged")
    up = real.up()

    assert_refused(up, real, "is damaged", "hearth models pull smollm2")
    assert not real.state.lock_file.exists()


def test_missing_model_without_a_network_is_told(real: Tiny, tmp_path: Path) -> None:
    """The first start may happen on a train."""
    real.wrapper = inside("true", flags="n")
    real.environment = {
        "PIP_RETRIES": "1", "PIP_NO_CACHE_DIR": "1", "PIP_FIND_LINKS": "", "HOME": str(tmp_path),
    }  # fmt: skip
    up = real.up()

    assert_refused(up, real, "cannot be reached", "Check the network")
    assert not real.state.lock_file.exists()


def test_misspelt_setting_is_refused_with_the_right_name(tiny: Tiny) -> None:
    """A setting that is silently ignored costs an evening."""
    tiny.environment = {"HEARTH_STATEDIR": "/tmp"}
    up = tiny.up()

    assert_refused(up, tiny, "HEARTH_STATEDIR is not a setting. Did you mean HEARTH_STATE_DIR?")


def test_namespaces_are_there_for_these_tests() -> None:
    """Without `unshare` the full disk would not be tested, and nobody would notice."""
    assert shutil.which("unshare")
