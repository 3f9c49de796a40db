"""The one manager of long-running child processes."""

import asyncio
import os
import signal
import subprocess
import sys
from asyncio.subprocess import Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import psutil

from hearth.process import parent_death

BARE: Final = (sys.executable, "-I", "-S")
"""An interpreter that imports only the standard library: it starts in about 15 ms."""

LINE_LIMIT: Final = 1 << 16
"""asyncio's own limit of a line, in bytes."""


@dataclass(frozen=True, kw_only=True)
class StopOrder:
    """The steps that end a process before SIGKILL; a step without a time is left out.

    Attributes:
        stdin: Seconds to wait after standard input is closed.
        term: Seconds to wait after SIGTERM.
        term_group: Send SIGTERM to the whole process group, for programs behind a wrapper that does
            not pass signals on. Otherwise only the process itself receives it.
    """

    stdin: float | None = None
    term: float | None = None
    term_group: bool = False


KILL: Final = StopOrder()
"""SIGKILL at once, for processes that hold no state."""


@dataclass(frozen=True, kw_only=True)
class Streams:
    """The standard streams of a process, in the terms of `subprocess`.

    Attributes:
        limit: The longest line in bytes that a stream reader of a pipe accepts.
    """

    stdin: int = subprocess.DEVNULL
    stdout: int | None = None
    stderr: int | None = None
    limit: int = LINE_LIMIT


class Child:
    """A started process. `stop` ends it; no process of its group is left after its end."""

    def __init__(self, process: Process, *, has_group: bool) -> None:
        self.process = process
        self._has_group = has_group
        self._ending = asyncio.create_task(self._end())

    @classmethod
    async def spawn(
        cls,
        *command: str | Path,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        streams: Streams | None = None,
        pass_fds: Sequence[int] = (),
        new_group: bool = True,
        with_parent: bool = False,
    ) -> Self:
        """Start a process.

        Args:
            command: The program, by its path where `with_parent` is set, and its arguments.
            env: The whole environment; None passes on that of this process.
            cwd: The working directory; None passes on that of this process.
            streams: Standard streams; the default has no input and inherits both outputs.
            pass_fds: Descriptors that the process inherits.
            new_group: Give the process its own session and process group: Ctrl-C in a terminal does
                not reach it, and its own children are ended with it. A worker inside a service
                stays in the group of the service, and is killed together with it.
            with_parent: Let the kernel kill the process when this process ends (Linux only).

        Raises:
            OSError: The program cannot be started.
        """
        used = streams or Streams()
        wrapper = (*BARE, parent_death.__file__) if with_parent else ()
        process = await asyncio.create_subprocess_exec(
            *wrapper,
            *command,
            stdin=used.stdin,
            stdout=used.stdout,
            stderr=used.stderr,
            limit=used.limit,
            start_new_session=new_group,
            pass_fds=pass_fds,
            env=None if env is None else dict(env),
            cwd=cwd,
        )
        return cls(process, has_group=new_group)

    @property
    def pid(self) -> int:
        """The process id; with `new_group`, also the id of its process group and session."""
        return self.process.pid

    @property
    def running(self) -> bool:
        return self.process.returncode is None

    @property
    def ended_with(self) -> str:
        """How the process ended: `exit code 1` or `SIGKILL`; empty while it runs."""
        code = self.process.returncode
        return "" if code is None else describe_exit(code)

    @property
    def resident(self) -> int:
        """Its resident memory in bytes; 0 when it has ended."""
        try:
            return int(psutil.Process(self.pid).memory_info().rss)
        except psutil.Error:
            return 0

    async def wait(self) -> str:
        """Wait for the end of the process and of its group; returns `ended_with`."""
        return await asyncio.shield(self._ending)

    async def stop(self, order: StopOrder, *, force: asyncio.Event | None = None) -> str:
        """End the process and wait until it has ended; returns `ended_with`.

        A stop that is cancelled skips to SIGKILL and leaves nothing behind.

        Args:
            order: The steps before SIGKILL.
            force: Skips to SIGKILL when it is set.
        """
        try:
            if order.stdin is not None and self.process.stdin is not None:
                self.process.stdin.close()
                await self._ends_within(order.stdin, force)
            if order.term is not None and not self._ending.done():
                self._send(signal.SIGTERM, group=order.term_group)
                await self._ends_within(order.term, force)
        finally:
            if not self._ending.done():
                self._send(signal.SIGKILL, group=True)
        return await self.wait()

    def _send(self, number: signal.Signals, *, group: bool) -> None:
        with suppress(ProcessLookupError):
            if group and self._has_group:
                os.killpg(self.pid, number)
            else:
                self.process.send_signal(number)

    async def _ends_within(self, seconds: float, force: asyncio.Event | None) -> None:
        forced = asyncio.create_task((force or asyncio.Event()).wait())
        try:
            await asyncio.wait(
                {self._ending, forced}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            forced.cancel()

    async def _end(self) -> str:
        code = await self.process.wait()
        # At once: once the group is empty, its number may be used again.
        if self._has_group:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        return describe_exit(code)


def describe_exit(code: int) -> str:
    """Return how a process ended, from its return code: `exit code 1` or `SIGKILL`."""
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name
