"""The lock that makes an instance the only one of its state directory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hearth.local.state.lock import InstanceLock, LockHeld, lock_holder
from hearth.service.state import StateDir, is_locked


def test_second_lock_is_refused_while_the_first_is_held(tmp_path: Path) -> None:
    """Two supervisors would start two of everything."""
    state = StateDir(tmp_path)
    with InstanceLock(state):
        assert is_locked(state.lock_file)
        assert lock_holder(state) == os.getpid()
        with pytest.raises(LockHeld), InstanceLock(state):
            pass
    assert not state.lock_file.exists()
    assert not is_locked(state.lock_file)


def test_lock_of_a_dead_process_is_free(tmp_path: Path) -> None:
    """A crash must not need a person to delete a file."""
    state = StateDir(tmp_path)
    script = (
        "import os, sys; from pathlib import Path;"
        "from hearth.local.state.lock import InstanceLock;"
        "from hearth.service.state import StateDir;"
        f"InstanceLock(StateDir(Path({str(tmp_path)!r}))).__enter__(); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", script], check=False)

    assert state.lock_file.exists()
    with InstanceLock(state):
        assert lock_holder(state) == os.getpid()


def test_asking_whether_it_is_locked_does_not_keep_it_from_being_taken(tmp_path: Path) -> None:
    """`hearth status` in a loop must not make a start fail."""
    state = StateDir(tmp_path)
    state.lock_file.touch()
    with state.lock_file.open("rb") as reader:
        assert not is_locked(state.lock_file)
        assert reader.readable()
        with InstanceLock(state):
            assert is_locked(state.lock_file)


@pytest.mark.parametrize("content", ["", "not a number"])
def test_unreadable_lock_file_names_nobody(tmp_path: Path, content: str) -> None:
    """A number that is not there must not become a signal to process 0."""
    state = StateDir(tmp_path)
    state.lock_file.write_text(content, encoding="ascii")

    assert lock_holder(state) is None
