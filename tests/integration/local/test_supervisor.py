"""The supervisor itself, with less patience than people have."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from hearth.local.environment import child_environment
from hearth.local.errors import ServiceGaveUp
from hearth.local.process.keeper import Patience
from hearth.local.process.service import Service
from hearth.local.process.supervisor import StopRequest, Supervisor
from hearth.service.state import process_runs
from tests.integration.local.conftest import free_port_base, wait_for
from tests.integration.local.tiny_hearth import TINY

SHORT = Patience(deaths=2, window=60, first_pause=0.01, longest_pause=0.02)


class Listener:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.conditions: list[tuple[str, str]] = []

    def line(self, service: str, text: str) -> None:
        self.lines.append(f"{service} | {text}")

    def condition(self, service: str, detail: str) -> None:
        self.conditions.append((service, detail))


@pytest.fixture
def listener() -> Listener:
    return Listener()


@pytest.fixture
def supervisor(tmp_path: Path, listener: Listener) -> Supervisor:
    """Two tiny services, the second with a process of its own."""
    base = free_port_base()
    services = [
        Service(
            name=name,
            command=(sys.executable, "-P", str(TINY), str(base + offset), *arguments),
            port=base + offset,
            environment=child_environment({}),
            stop_seconds=1,
        )
        for name, offset, arguments in (("steady", 0, ()), ("frail", 80, ("--with-child",)))
    ]
    return Supervisor(
        services, folder=tmp_path, logs=tmp_path / "logs", audience=listener, patience=SHORT
    )


def pid_of(supervisor: Supervisor, name: str) -> int:
    return next(service.pid for service in supervisor.running() if service.name == name)


async def test_service_that_ends_again_and_again_ends_the_instance(
    supervisor: Supervisor, listener: Listener, tmp_path: Path
) -> None:
    """A restart that does not help, for ever, hides the fault and heats the room."""
    killed: list[int] = []

    def kill() -> None:
        killed.append(pid_of(supervisor, "frail"))
        os.kill(killed[-1], signal.SIGKILL)

    with pytest.raises(ServiceGaveUp) as caught:
        await supervisor.run(StopRequest(), on_ready=kill, on_restart=kill)

    assert len(set(killed)) == SHORT.deaths + 1
    assert caught.value.service == "frail"
    assert "frail ended 3 times within a minute (last: SIGKILL)" in str(caught.value)
    assert str(tmp_path / "logs" / "frail.log") in str(caught.value)
    assert any("starting on" in line for line in caught.value.evidence)
    assert not process_runs(pid_of(supervisor, "steady"))
    assert "frail | hearth: ended with SIGKILL; starting it again in 0.01 s" in listener.lines


async def test_killed_warden_is_replaced_and_still_guards(supervisor: Supervisor) -> None:
    """The process that saves us from orphans may itself be the one that is killed."""
    stop, ready = StopRequest(), asyncio.Event()
    running = asyncio.create_task(supervisor.run(stop, on_ready=ready.set, on_restart=lambda: None))
    await ready.wait()
    (warden,) = wardens()
    os.kill(warden, signal.SIGKILL)
    await asyncio.to_thread(
        wait_for, lambda: wardens() not in ([], [warden]), "there is another warden"
    )
    stop.ask()

    assert await running
    assert wardens() == []
    assert not any(process_runs(service.pid) for service in supervisor.running())


def wardens() -> list[int]:
    """The living wardens among our children."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split()
    return [int(child) for child in children if b"warden_main" in command_of(child)]


def command_of(child: str) -> bytes:
    """Its command line; nothing when it has ended meanwhile."""
    try:
        return Path(f"/proc/{child}/cmdline").read_bytes()
    except FileNotFoundError:
        return b""


def test_pauses_before_restarts_double_up_to_a_limit() -> None:
    """A service that needs a moment gets it; one that is broken does not spin."""
    patience = Patience()

    assert [patience.pause(deaths) for deaths in range(1, 7)] == [0.5, 1, 2, 4, 8, 8]
