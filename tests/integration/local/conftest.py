"""Instances of tiny services under the real supervisor, each watched to its last process."""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest

from hearth.service.names import PORT_OFFSETS
from hearth.service.state import Instance, StateDir, read_instance
from tests.ports import free_base
from tests.rules.tree import ROOT

MARK = "TEST_HEARTH_MARK"
OURS = ("HEARTH_", "MOE_GATEWAY_", "PIPECATAPP_", "LLAMA_EXPERT_", "SPEECH_")
SECONDS = 120.0
"""Of patience: a command starts in one second, and in twenty on a machine with much to do."""

Answer = TypeVar("Answer")
Ended = subprocess.CompletedProcess[str]


@dataclass
class Up:
    """An `up` that was started; its output goes to files, so that it never waits for us."""

    process: subprocess.Popen[bytes]
    out_file: Path
    err_file: Path

    @property
    def out(self) -> str:
        return self.out_file.read_text(encoding="utf-8")

    @property
    def err(self) -> str:
        return self.err_file.read_text(encoding="utf-8")

    def send(self, number: signal.Signals) -> None:
        """A signal as the terminal sends it: to the process group."""
        os.killpg(self.process.pid, number)

    def ended(self) -> int:
        """Wait for its end; its exit code."""
        return self.process.wait(SECONDS)

    def says(self, text: str) -> None:
        """Wait until its output holds this text."""
        wait_for(lambda: text in self.out, f"{text!r} is said")


@dataclass
class Tiny:
    """One state directory, the command on it, and every process that came of it."""

    state: StateDir
    port_base: int
    module: str = "tests.integration.local.tiny_hearth"
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    wrapper: Sequence[str] = ()
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def web(self) -> str:
        return f"http://127.0.0.1:{self.port_base}"

    def be(self, **traits: dict[str, Any]) -> None:
        """Give services traits, by name with `_` for `-`."""
        self.state.root.mkdir(exist_ok=True)
        named = {name.replace("_", "-"): given for name, given in traits.items()}
        (self.state.root / "traits.json").write_text(json.dumps(named), encoding="utf-8")

    def start(self, *options: str, output: int | None = None) -> "Up":
        """`up`, as a shell starts it: in a process group of its own."""
        out, err = (self.state.root.with_suffix(f".{name}") for name in ("out", "err"))
        with out.open("wb") as out_file, err.open("wb") as err_file:
            process = subprocess.Popen(
                self._command("up", *options, "--port-base", str(self.port_base)),
                cwd=ROOT, env=self._environment(), start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=output or out_file, stderr=err_file,
            )  # fmt: skip
        return Up(process, out, err)

    def up(self, *options: str) -> "Up":
        """`up`, until it ends by itself."""
        started = self.start(*options)
        started.ended()
        return started

    def run(self, command: str, *options: str) -> Ended:
        return subprocess.run(
            self._command(command, *options), cwd=ROOT, env=self._environment(), text=True,
            capture_output=True, timeout=SECONDS, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def running(self) -> Instance:
        """Wait until all is healthy."""
        return wait_for(lambda: read_instance(self.state), "the instance is healthy")

    def pids(self) -> list[int]:
        """Every living process that the command started, however it hides."""
        return [
            process.pid
            for process in psutil.process_iter(["environ", "status"])
            if (process.info["environ"] or {}).get(MARK) == self.mark
            and process.info["status"] != psutil.STATUS_ZOMBIE
        ]

    def assert_nothing_left(self) -> None:
        assert self.pids() == []
        assert not self.state.lock_file.exists()
        assert not self.state.instance_file.exists()

    def _command(self, *arguments: str) -> list[str]:
        command = [sys.executable, "-m", self.module, *arguments]
        return [*self.wrapper, *command, "--state-dir", str(self.state.root)]

    def _environment(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(OURS)}
        return {**kept, MARK: self.mark, **self.environment}


@pytest.fixture
def tiny(make_tiny: Callable[[], Tiny]) -> Tiny:
    return make_tiny()


@pytest.fixture
def make_tiny(tmp_path: Path) -> Iterator[Callable[[], Tiny]]:
    """Makes instances that are ended, whatever the test did to them."""
    made: list[Tiny] = []

    def make() -> Tiny:
        state = StateDir(tmp_path / f"state{len(made)}")
        made.append(Tiny(state, free_port_base()))
        return made[-1]

    yield make
    for tiny in made:
        for pid in tiny.pids():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def free_port_base() -> int:
    """A port base that nobody else is given."""
    return free_base(PORT_OFFSETS.values())


def wait_for(get: Callable[[], Answer | None], what: str, seconds: float = SECONDS) -> Answer:
    """Ask until there is an answer that is neither None nor False."""
    deadline = time.monotonic() + seconds
    while not (answer := get()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.02)
    return answer
