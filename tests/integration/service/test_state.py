"""What other commands learn of the running instance from its state directory."""

import fcntl
import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hearth.service.state import StateDir, process_runs, read_instance


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    return StateDir(tmp_path)


def write(state: StateDir, **changes: Any) -> None:
    """An instance file as `hearth up` of this process would write it."""
    moment = datetime.now(UTC).isoformat()
    instance = {
        "version": 1, "pid": os.getpid(), "started": moment, "web": "http://127.0.0.1:8000",
        "api": "http://127.0.0.1:8080/v1", "key_file": str(state.key_file),
        "services": [{"name": "pipecatapp", "pid": 1, "port": 8000,
                      "url": "http://127.0.0.1:8000", "since": moment}],
    }  # fmt: skip
    state.instance_file.write_text(json.dumps(instance | changes), encoding="utf-8")


def test_running_instance_is_read(state: StateDir) -> None:
    """`hearth run` speaks to the instance that runs."""
    write(state)
    with state.lock_file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        instance = read_instance(state)

    assert instance is not None
    assert instance.api == "http://127.0.0.1:8080/v1"
    assert [service.name for service in instance.services] == ["pipecatapp"]


def test_instance_of_a_process_that_is_gone_does_not_run(state: StateDir) -> None:
    """After a power cut the file is still there."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    write(state, pid=ended.pid)

    assert read_instance(state) is None


def test_instance_whose_number_went_to_another_process_does_not_run(state: StateDir) -> None:
    """After a reboot the number is somebody else's, but nobody holds the lock."""
    write(state)
    state.lock_file.touch()

    assert read_instance(state) is None


def test_process_that_nobody_has_waited_for_does_not_run() -> None:
    """The shell that started it may never ask; its number is all that is left."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)

        assert not process_runs(process.pid)
    assert process_runs(os.getpid())


@pytest.mark.parametrize("content", ["", "{", '{"version": 1}', "[]"])
def test_file_that_is_no_instance_is_none(state: StateDir, content: str) -> None:
    """A half-written file must not end every command in a traceback."""
    state.instance_file.write_text(content, encoding="utf-8")

    assert read_instance(state) is None


def test_instance_of_another_version_is_none(state: StateDir) -> None:
    """What its fields mean is not known."""
    write(state, version=2)

    assert read_instance(state) is None


def test_empty_directory_has_no_instance(state: StateDir) -> None:
    """The usual case of a first run."""
    assert read_instance(state) is None
