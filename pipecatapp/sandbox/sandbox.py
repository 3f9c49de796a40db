"""One program in the sandbox, from its start to the end of its last process."""

import asyncio
import contextlib
import json
import os
import platform
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from pipecatapp.sandbox import bubblewrap, seccomp
from pipecatapp.sandbox.bubblewrap import Descriptors, Mount, SandboxUnusable
from pipecatapp.sandbox.leftovers import end_processes, guard, new_name
from pipecatapp.sandbox.limits import Limits, Stopped
from pipecatapp.sandbox.output import Stream, Text
from pipecatapp.sandbox.program_group import Mode, ProgramGroup, mode
from pipecatapp.sandbox.watch import Folder, Processes

TICK = 0.02
"""Seconds between two checks of a running program."""
AFTERMATH = 2.0
"""Seconds that a killed program's pipes get to close."""
JOIN = 'while [ "$1" != -- ]; do echo $$ >"$1" || exit 125; shift; done; shift; exec "$@"'
"""Enters the cgroup before anything else happens."""
KILLED_FOR_CPU = 128 + signal.SIGXCPU
READ = 1 << 16


@dataclass(frozen=True)
class Outcome:
    """How a program ended: its exit code, or in `stopped` the limit that ended it."""

    exit_code: int | None
    """None if it was stopped; 128 + n if signal n ended it."""
    stopped: Stopped | None
    stdout: Text
    stderr: Text
    seconds: float
    changes: Mapping[str, str]
    """Path in the folder to `added`, `changed` or `removed`."""


class Sandbox:
    """Runs programs with one writable folder and without a network.

    `memory_cgroup` is turned off where memory is to be watched from outside even though a cgroup
    could be made.
    """

    def __init__(self, *, memory_cgroup: bool = True) -> None:
        self._memory_cgroup = memory_cgroup

    async def run(
        self,
        command: Sequence[str],
        folder: Path,
        *,
        limits: Limits | None = None,
        stdin: bytes = b"",
        mounts: Sequence[Mount] = (),
        environment: Mapping[str, str] | None = None,
    ) -> Outcome:
        """Run `command` with `folder` as its working directory, and wait for its end.

        Cancelling ends every process of it first. Raises `SandboxUnusable`.
        """
        cancelled = threading.Event()
        job = _Job(
            command=command,
            folder=folder,
            limits=limits or Limits(),
            stdin=stdin,
            mounts=mounts,
            environment=environment or {},
            memory_cgroup=self._memory_cgroup,
            cancelled=cancelled,
        )
        work = asyncio.ensure_future(asyncio.to_thread(job.run))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            cancelled.set()
            await asyncio.wait({work})
            raise


def limited_by() -> Mode:
    """State how programs are limited here; raises `SandboxUnusable` where none can be run."""
    bubblewrap.find()
    found = mode()
    if found == "watched" and bubblewrap.is_root():
        group = ProgramGroup.make(Limits(), memory=False)
        if group is None:
            raise SandboxUnusable(bubblewrap.UNLIMITED_ROOT)
        group.remove()
    return found


@dataclass(frozen=True)
class _Job:
    """A program and its limits. A separate thread supervises it, so that a busy service does not
    delay its stop.
    """

    command: Sequence[str]
    folder: Path
    limits: Limits
    stdin: bytes
    mounts: Sequence[Mount]
    environment: Mapping[str, str]
    memory_cgroup: bool
    cancelled: threading.Event
    name: str = field(default_factory=new_name)

    def run(self) -> Outcome:
        program = bubblewrap.find()
        guard.watch()
        folder = Folder(self.folder, self.limits)
        group = self._group()
        try:
            with _Running(self, program, group) as running:
                stopped = running.follow(folder)
            return running.outcome(stopped, folder)
        finally:
            if group is not None:
                group.remove()

    def _group(self) -> ProgramGroup | None:
        group = ProgramGroup.make(self.limits, name=self.name) if self.memory_cgroup else None
        if group is None and bubblewrap.is_root():
            group = ProgramGroup.make(self.limits, name=self.name, memory=False)
            if group is None:
                raise SandboxUnusable(bubblewrap.UNLIMITED_ROOT)
        return group


@dataclass
class _Running:
    """The started program, its pipes, and how to end it."""

    job: _Job
    program: str
    group: ProgramGroup | None
    code: int | None = None
    child: int | None = None
    _said: bytes = b""
    _pending: memoryview = field(default_factory=lambda: memoryview(b""))

    def __post_init__(self) -> None:
        self.limits = self.job.limits
        self.counted = self.group is not None and self.group.counts_memory
        self.sockets_counted = self.group is not None and self.group.counts_sockets
        self.processes = Processes(self.limits, self.group)
        self.stdout, self.stderr = Stream(self.limits.kept), Stream(self.limits.kept)

    def __enter__(self) -> Self:
        self._begin = time.monotonic()
        self._selector = selectors.DefaultSelector()
        status, status_in = os.pipe()
        calls = seccomp.program(
            platform.machine(), counted=self.counted, sockets_counted=self.sockets_counted
        )
        with _files(calls, self.job.environment) as (filter_file, *others):
            files = Descriptors(guard.lifeline, filter_file, status_in, *others)
            try:
                self.process = self._start(files)
            except BaseException:
                os.close(status)
                raise
            finally:
                os.close(status_in)
        self._listen(status)
        return self

    def __exit__(self, *_error: object) -> None:
        self._kill()
        self.process.wait()
        for key in list(self._selector.get_map().values()):
            self._close(key.fd)
        self._selector.close()

    def _start(self, files: Descriptors) -> "subprocess.Popen[bytes]":
        job = self.job
        words = bubblewrap.command_line(
            self.program,
            job.command,
            bubblewrap.mounts_of(job.folder, job.mounts),
            self.limits,
            files,
            name=job.name,
            counted=self.counted,
        )
        if self.group is not None:
            words = ["/bin/sh", "-c", JOIN, "sh", *self.group.process_files, "--", *words]
        pipe = subprocess.PIPE
        return subprocess.Popen(
            words,
            stdin=pipe if job.stdin else subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            pass_fds=files.all(),
            env={"PATH": bubblewrap.PATH},
            cwd="/",
            start_new_session=True,
        )

    def _listen(self, status: int) -> None:
        process = self.process
        self._status = status
        self._out, self._err = _taken(process.stdout), _taken(process.stderr)
        for file in (status, self._out, self._err):
            os.set_blocking(file, False)
            self._selector.register(file, selectors.EVENT_READ)
        self._in = -1
        if process.stdin is not None:
            self._in, self._pending = _taken(process.stdin), memoryview(self.job.stdin)
            os.set_blocking(self._in, False)
            self._selector.register(self._in, selectors.EVENT_WRITE)

    def follow(self, folder: Folder) -> Stopped | None:
        """Pass everything on until the program has ended; the limit that it was ended for."""
        ends = self._begin + self.limits.seconds
        while self._selector.get_map():
            wait = min(TICK, max(0.0, ends - time.monotonic()))
            for key, _ in self._selector.select(wait):
                self._pass(key.fd)
            stopped = self._exceeded(folder, ends)
            if stopped is not None:
                self._kill()
                self._drain()
                return stopped
        return self._late(folder)

    def _exceeded(self, folder: Folder, ends: float) -> Stopped | None:
        if self.job.cancelled.is_set():
            return "cancelled"
        if self.stdout.size + self.stderr.size > self.limits.output:
            return "output"
        if exceeded := self.processes.exceeded():
            return exceeded
        if folder.overfull():
            return "disk"
        return "time" if time.monotonic() >= ends else None

    def _late(self, folder: Folder) -> Stopped | None:
        """A limit that shows only at the end."""
        if self.group is not None and (exceeded := self.processes.exceeded()):
            return exceeded
        if self.code == KILLED_FOR_CPU:
            return "cpu"
        return "disk" if folder.overfull_now() else None

    def outcome(self, stopped: Stopped | None, folder: Folder) -> Outcome:
        """The typed end. Raises `SandboxUnusable` when the program was never started."""
        if self.code is None and stopped is None:
            raise bubblewrap.refusal(self.stderr.text().text)
        return Outcome(
            exit_code=None if stopped else self.code,
            stopped=stopped,
            stdout=self.stdout.text(),
            stderr=self.stderr.text(),
            seconds=round(time.monotonic() - self._begin, 3),
            changes=folder.changes() if stopped != "disk" else {},
        )

    def _pass(self, file: int) -> None:
        if file == self._in:
            self._feed()
            return
        try:
            data = os.read(file, READ)
        except BlockingIOError:
            return
        if not data:
            self._close(file)
        elif file == self._status:
            self._told(data)
        else:
            (self.stdout if file == self._out else self.stderr).add(data)

    def _feed(self) -> None:
        try:
            self._pending = self._pending[os.write(self._in, self._pending[:READ]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._pending = memoryview(b"")
        if not self._pending:
            self._close(self._in)

    def _told(self, data: bytes) -> None:
        """Read bubblewrap's status: the id of the first process and its exit, as lines of JSON."""
        *lines, self._said = (self._said + data).split(b"\n")
        for line in filter(None, lines):
            told = json.loads(line)
            self.code = told.get("exit-code", self.code)
            if self.child is None:
                self.child = self.processes.first = told.get("child-pid")

    def _drain(self) -> None:
        """Read the remaining output of the killed program, until its pipes close."""
        ends = time.monotonic() + AFTERMATH
        while self._selector.get_map() and time.monotonic() < ends:
            for key, _ in self._selector.select(TICK):
                self._pass(key.fd)

    def _kill(self) -> None:
        """End the first process of the namespace, with which all others die, and bubblewrap."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self.child is not None and self.code is None:
                os.kill(self.child, signal.SIGKILL)
        try:
            self.process.wait(AFTERMATH if self.child is not None else 0)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            if self.child is None:  # bubblewrap had started it and had not reported it yet
                end_processes(self.job.name)

    def _close(self, file: int) -> None:
        self._selector.unregister(file)
        os.close(file)


@contextlib.contextmanager
def _files(calls: bytes, environment: Mapping[str, str]) -> Iterator[list[int]]:
    """The files that bubblewrap reads: filter, passwd, group, base variables, variables."""
    contents = (
        calls,
        bubblewrap.PASSWD,
        bubblewrap.GROUP,
        bubblewrap.base_variables(),
        bubblewrap.variables(environment),
    )
    files: list[int] = []
    try:
        for content in contents:
            file = os.memfd_create("sandbox", os.MFD_CLOEXEC)
            files.append(file)
            os.write(file, content)
            os.lseek(file, 0, os.SEEK_SET)
        yield files
    finally:
        for file in files:
            os.close(file)


def _taken(pipe: object) -> int:
    """The descriptor of one of Popen's pipes, which is ours to close from now on."""
    detached = os.dup(pipe.fileno())  # type: ignore[attr-defined]
    pipe.close()  # type: ignore[attr-defined]
    return detached


__all__ = ["Outcome", "Sandbox", "SandboxUnusable"]
