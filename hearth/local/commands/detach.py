"""`hearth up --detach`: show the start on the terminal; the instance continues in background."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

from hearth.local.process.logfile import MAX_BYTES

READY = b"1"


def detached(work: Callable[[Callable[[], None]], int], log: Path) -> int:
    """Run `work(let_go)` in a new session; return when it calls `let_go`, or its exit code.

    Until then its output goes to this terminal, afterwards to `log`. An interrupt of this process
    stops it.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        _close_all_but(writing)
        os.setsid()
        os._exit(_run(work, writing, log))
    os.close(writing)
    try:
        with os.fdopen(reading, "rb") as pipe:
            if pipe.read(1) == READY:
                return 0
    except KeyboardInterrupt:
        os.kill(pid, signal.SIGTERM)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _run(work: Callable[[Callable[[], None]], int], writing: int, log: Path) -> int:
    def let_go() -> None:
        _leave_terminal(log)
        os.write(writing, READY)
        os.close(writing)

    return work(let_go)


def _close_all_but(kept: int) -> None:
    """Close inherited descriptors: the reader of a pipe must not wait for this process."""
    os.closerange(3, kept)
    os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))


def _leave_terminal(log: Path) -> None:
    """Redirect standard input to `/dev/null`, and output and errors to the end of the log."""
    mode = os.O_APPEND if log.exists() and log.stat().st_size < MAX_BYTES else os.O_TRUNC
    output = os.open(log, os.O_WRONLY | os.O_CREAT | mode, 0o600)
    nowhere = os.open(os.devnull, os.O_RDONLY)
    for target, source in ((0, nowhere), (1, output), (2, output)):
        os.dup2(source, target)
    os.close(output)
    os.close(nowhere)
