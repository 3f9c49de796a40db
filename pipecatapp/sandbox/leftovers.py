"""Remove processes, cgroups and files of sandboxes that a killed service left behind.

A killed process cannot clean up, and bubblewrap's `--die-with-parent` takes effect only some
milliseconds after its start. So a service that runs programs starts a guard process: this file, run
by a bare interpreter, with a pipe as its standard input whose other end only the service holds
open. When the kernel closes the pipe, the guard removes everything that has the service's mark in
its name, and ends. A line in the pipe is a folder that may contain cgroups or files of that name.

A pair of sockets, the lifeline, shows the guard when the last sandbox has ended. The service and
the first process of each sandbox hold one end, so a sandbox that is still starting is found. A
program could open a pipe of that process in /proc, but not a socket.
"""

import contextlib
import os
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex
from typing import Final

if __name__ == "__main__":  # The guard's interpreter has only the standard library on its path.
    sys.path.append(str(Path(__file__).parents[2]))

from hearth import cgroup

NAME: Final = re.compile(rb"hearth-sandbox-\d+-[0-9a-f]{8}-[0-9a-f]{8}")
"""Mark of a service and token of a sandbox; the guard itself has the mark only in its arguments."""
SCANS: Final = 4
"""Scans in a row that find no process: one that was just being started is seen by the next."""
PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 1.0
GIVE_UP: Final = 10.0
"""Seconds after which a process that cannot be ended is left to the kernel."""
LIFELINE: Final = 3
"""Descriptor of the guard from which it reads the lifeline."""
IGNORED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that stop a service and reach its guard too; blocked, so that they are from its start."""


class Guard:
    """The guard of this process, started with its first sandbox and again when it has ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._folders: set[Path] = set()
        self._owner, self._mark = 0, ""
        self._pid, self._pipe = 0, -1
        self._lifeline = (-1, -1)

    @property
    def mark(self) -> str:
        """The prefix of the names of this process; a forked child has a different one."""
        if self._owner != os.getpid():
            self._owner, self._pid = os.getpid(), 0
            self._mark = f"hearth-sandbox-{self._owner}-{token_hex(4)}"
            for descriptor in (self._pipe, *self._lifeline):
                with contextlib.suppress(OSError):
                    os.close(descriptor)
            ends = socket.socketpair()
            self._pipe, self._lifeline = -1, (ends[0].detach(), ends[1].detach())
        return self._mark

    @property
    def lifeline(self) -> int:
        """Descriptor that the first process of each sandbox holds open, and no program."""
        return self._lifeline[1] if self.mark else -1

    def watch(self, *folders: Path) -> None:
        """Register folders whose entries with our mark are removed after this process has ended."""
        with self._lock:
            mark = self.mark
            new = {*folders, temporary_folder()} - self._folders
            self._folders |= new
            if not self._runs():
                self._start(mark)
                new = self._folders
            for folder in new:
                with contextlib.suppress(BrokenPipeError):
                    os.write(self._pipe, f"{folder}\n".encode())

    def _runs(self) -> bool:
        try:
            return self._pid != 0 and os.waitpid(self._pid, os.WNOHANG) == (0, 0)
        except ChildProcessError:
            return False

    def _start(self, mark: str) -> None:
        if self._pipe >= 0:
            os.close(self._pipe)
        reading, self._pipe = os.pipe()
        null = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_WRONLY, 0) for number in (1, 2)]
        pipes = [
            (os.POSIX_SPAWN_DUP2, reading, 0),
            (os.POSIX_SPAWN_DUP2, self._lifeline[0], LIFELINE),
        ]
        self._pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", __file__, mark],
            {"PATH": os.defpath},
            file_actions=[*pipes, *null],
            setsid=True,
            setsigmask=IGNORED,
        )
        os.close(reading)


guard: Final = Guard()


def new_name() -> str:
    """Return a name for one sandbox: the mark of this process and a token."""
    return f"{guard.mark}-{token_hex(4)}"


def temporary_folder() -> Path:
    """Select the folder of temporary files for this process.

    `tempfile` tests folders by writing a file without a mark to each: if the process is killed
    before the file is removed, it would be left behind.
    """
    if tempfile.tempdir is None:
        named = [os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP")]
        for folder in filter(None, (*named, "/tmp", "/var/tmp")):
            if Path(folder).is_dir() and os.access(folder, os.W_OK | os.X_OK):
                tempfile.tempdir = str(Path(folder).absolute())
                break
    return Path(tempfile.gettempdir())


def end_processes(mark: str) -> None:
    """End every process of the sandboxes whose name begins with `mark`."""
    ends, quiet = time.monotonic() + GIVE_UP, 0
    while quiet < SCANS and time.monotonic() < ends:
        quiet = 0 if _kill(mark) else quiet + 1
        time.sleep(PAUSE)


def end_group(folder: Path) -> None:
    """End the processes of a cgroup and remove it."""
    cgroup.kill([folder], GIVE_UP)


def _kill(mark: str) -> bool:
    """Kill the processes of the sandboxes whose name begins with `mark`; False if none is found."""
    found = list(_marked(mark.encode()))
    for pid in found:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    return bool(found)


def _marked(mark: bytes) -> Iterator[int]:
    """Find bubblewrap's processes of these sandboxes: they have the name as an argument."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            arguments = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if any(word.startswith(mark) and NAME.fullmatch(word) for word in arguments):
            yield int(entry.name)


def _end_sandboxes(mark: str) -> None:
    """End all sandboxes of a service that has ended; returns when none holds the lifeline.

    A process that has just been forked does not have the name among its arguments yet: it is found
    by a later scan.
    """
    ended, pause = select.poll(), PAUSE
    ended.register(LIFELINE, 0)  # Its end is reported whatever is registered.
    while not ended.poll(0):
        _kill(mark)
        ended.poll(pause * 1000)
        pause = min(2 * pause, LONGEST_PAUSE)


def _remove(left: Path) -> None:
    """Remove a file or folder, again while a program that is being ended still writes to it."""
    ends = time.monotonic() + GIVE_UP
    while time.monotonic() < ends:
        # A program may have shut its folders; neither command follows a link.
        subprocess.run(["chmod", "-R", "u+rwX", "--", left], check=False)
        subprocess.run(["rm", "-rf", "--one-file-system", "--", left], check=False)
        if not os.path.lexists(left):
            return
        time.sleep(PAUSE)


def main(mark: str) -> None:
    """Wait for the end of the service, then remove what has its mark."""
    os.chdir("/")
    folders = {Path(line.rstrip("\n")) for line in sys.stdin}
    _end_sandboxes(mark)
    for left in [path for folder in folders for path in folder.glob(f"{mark}-*")]:
        if (left / cgroup.PROCESSES).exists():
            end_group(left)
        else:
            _remove(left)


if __name__ == "__main__":
    main(sys.argv[1])
