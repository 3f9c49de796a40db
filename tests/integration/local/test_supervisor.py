"""The supervisor itself, with shorter pauses than those of `hearth up`."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from hearth.local.environment import child_environment
from hearth.local.errors import NotReplaced, ServiceGaveUp, UnknownService
from hearth.local.process.service import Service
from hearth.local.process.supervisor import StopRequest, Supervisor
from hearth.process.restarts import RestartPolicy
from hearth.service.state import process_runs
from tests.integration.local.conftest import free_port_base, wait_for
from tests.integration.local.tiny_hearth import TINY

SHORT = RestartPolicy(deaths=2, window=60, first_pause=0.01, longest_pause=0.02)


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


def tiny_service(name: str, port: int, *arguments: str) -> Service:
    return Service(
        name=name,
        command=(sys.executable, "-P", str(TINY), str(port), *arguments),
        port=port,
        environment=child_environment({}),
        stop_seconds=1,
    )


@pytest.fixture
def supervisor(tmp_path: Path, listener: Listener) -> Supervisor:
    """Two tiny services, the second with a process of its own."""
    base = free_port_base()
    services = [
        tiny_service("steady", base),
        tiny_service("frail", base + 80, "--with-child"),
    ]
    return Supervisor(
        services, folder=tmp_path, logs=tmp_path / "logs", audience=listener, policy=SHORT
    )


def pid_of(supervisor: Supervisor, name: str) -> int:
    return next(service.pid for service in supervisor.running() if service.name == name)


async def test_services_are_ready_when_the_path_of_each_answers(
    tmp_path: Path, listener: Listener
) -> None:
    """A healthy gateway that has not yet asked the agent for its models answers 404 for it."""
    key, listed = tmp_path / "key", tmp_path / "listed"
    key.write_text("sk-1")
    tiny = tiny_service("gateway", free_port_base(), "--lists-when", str(listed), "--key", "sk-1")
    service = replace(tiny, ready_path="/v1/models/agent", key_file=key)
    supervisor = Supervisor(
        [service], folder=tmp_path, logs=tmp_path / "logs", audience=listener, policy=SHORT
    )
    stop, ready_after = StopRequest(), list[bool]()

    def on_ready() -> None:
        ready_after.append(listed.exists())
        stop.ask()

    running = asyncio.create_task(supervisor.run(stop, on_ready=on_ready, on_restart=lambda: None))
    not_listed = ("gateway", "The model is not known.")
    await asyncio.to_thread(wait_for, lambda: not_listed in listener.conditions, "it is asked")
    listed.touch()

    assert await running
    assert ready_after == [True]


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


async def test_service_is_replaced_while_the_others_run_on(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    """Another model is another service at the same port; nothing else may be restarted for it."""
    async with started(supervisor) as restarts:
        steady, frail = supervisor.running()

        await supervisor.replace("frail", tiny_service("better", frail.port))

        assert supervisor.running()[0] == steady
        assert (supervisor.running()[1].name, supervisor.running()[1].port) == (
            "better", frail.port,
        )  # fmt: skip
        assert not process_runs(frail.pid)
        assert restarts
    assert "starting on" in (tmp_path / "logs" / "better.log").read_text(encoding="utf-8")


async def test_service_that_cannot_take_the_place_leaves_the_old_one_running(
    supervisor: Supervisor,
) -> None:
    """A model that does not load must not leave the home without any."""
    async with started(supervisor):
        port = supervisor.running()[1].port

        reason = r"worse did not start \(.*exit code 1\), so frail was"
        with pytest.raises(NotReplaced, match=reason):
            await supervisor.replace("frail", tiny_service("worse", port, "--fails"))

        after = supervisor.running()[1]
        assert after.name == "frail"
        assert process_runs(after.pid)


async def test_restart_on_request_is_no_failure(supervisor: Supervisor) -> None:
    """A person may press the button more often than a service may die."""
    async with started(supervisor):
        seen = set()
        for _ in range(SHORT.deaths + 2):
            seen.add(pid_of(supervisor, "steady"))
            await supervisor.restart("steady")

        assert len(seen) == SHORT.deaths + 2
        assert process_runs(pid_of(supervisor, "steady"))
        with pytest.raises(UnknownService, match=r"'stedy'.*choose one of steady, frail"):
            await supervisor.restart("stedy")


async def test_stop_during_a_replacement_leaves_no_process(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    """Ctrl-C while a large model loads."""
    never = str(tmp_path / "never")
    async with started(supervisor):
        new = tiny_service("slow", supervisor.running()[1].port, "--ready-when", never)
        replacing = asyncio.create_task(supervisor.replace("frail", new))
        while supervisor.running()[1].name != "slow":  # noqa: ASYNC110 (nothing tells of it)
            await asyncio.sleep(0.01)

    assert replacing.cancelled()
    assert not any(process_runs(service.pid) for service in supervisor.running())


@asynccontextmanager
async def started(supervisor: Supervisor) -> AsyncIterator[list[bool]]:
    """Run the services in the block, when all are healthy; yields the list of restarts."""
    stop, ready, restarts = StopRequest(), asyncio.Event(), list[bool]()
    running = asyncio.create_task(
        supervisor.run(stop, on_ready=ready.set, on_restart=lambda: restarts.append(True))
    )
    await ready.wait()
    try:
        yield restarts
    finally:
        stop.ask()
        assert await running


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
