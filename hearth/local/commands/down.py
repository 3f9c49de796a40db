"""`hearth down`: stop the instance of a state directory with all its processes."""

import os
import signal
import time
from collections.abc import Callable

from hearth.local.errors import StopFailed
from hearth.local.state.lock import lock_holder
from hearth.service.state import StateDir, is_locked, process_runs, read_instance

STOP_SECONDS = 60.0
"""More than all services together may take to finish their requests."""

KILLED_SECONDS = 10.0
"""Longer than the warden needs to end the services of a killed supervisor."""


def down(state: StateDir) -> bool:
    """Stop the instance; return whether one was running. Raises `StopFailed`."""
    instance = read_instance(state)
    if not is_locked(state.lock_file):
        return False
    pid = lock_holder(state)
    if pid is None:
        raise StopFailed(state.root, "the lock file has no process id")
    services = instance.services if instance is not None else []
    processes = [pid, *(service.pid for service in services)]

    def stopped() -> bool:
        return not is_locked(state.lock_file) and not any(map(process_runs, processes))

    _signal(pid, signal.SIGTERM)
    if not _within(STOP_SECONDS, stopped):
        _signal(pid, signal.SIGKILL)
        if not _within(KILLED_SECONDS, stopped):
            raise StopFailed(state.root, f"process {pid} did not end")
    return True


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _within(seconds: float, condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
