"""A power manager on real sockets, and a machine on the loopback interface."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from hearth.service.health import Health
from hearth.service.metrics import new_registry
from power_manager.app import build_app
from power_manager.settings import Settings
from tests.conftest import served
from tests.integration.gateway.conftest import SERVICE_KEY, Lab
from tests.ports import free_port

MAC: Final = "02:00:00:aa:bb:cc"
Json = dict[str, Any]


class Machine:
    """A machine on the loopback interface: awake, it refuses connections to its port; asleep, it
    ignores them, as the kernel does when a queue of connections is full."""

    def __init__(self) -> None:
        self.port = free_port()
        self._open: list[socket.socket] = []

    def sleep(self) -> None:
        self._open.append(socket.create_server(("127.0.0.1", self.port), backlog=0))
        for _ in range(4):
            one = socket.socket()
            one.settimeout(0.01)
            with suppress(TimeoutError):
                one.connect(("127.0.0.1", self.port))
            self._open.append(one)

    def wake(self) -> None:
        for one in self._open:
            one.close()
        self._open = []


class Ear:
    """Receives the packets that are broadcast on the loopback interface."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.255.255.255", 9))
        self._socket.settimeout(20)

    def packet(self) -> bytes:
        return self._socket.recv(2048)

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def machine() -> Iterator[Machine]:
    one = Machine()
    yield one
    one.wake()


@pytest.fixture
def ear() -> Iterator[Ear]:
    one = Ear()
    yield one
    one.close()


Start = Callable[..., httpx2.Client]


@pytest.fixture
def start(tmp_path: Path, machine: Machine) -> Iterator[Start]:
    """`start(**settings)` serves a power manager of the machine `box`, and returns a client."""
    with ExitStack() as stack:

        def start(*, box: Json | None = None, **fields: Any) -> httpx2.Client:
            key = tmp_path / "power_key"
            key.write_text(f"{SERVICE_KEY}\n")
            one = {"name": "box", "mac": MAC, "address": "127.0.0.1", "port": machine.port,
                   "broadcast": "127.255.255.255", **(box or {})}  # fmt: skip
            quick: Json = {"check_seconds": 0.1, "probe_seconds": 0.1, "attempt_seconds": 0.3}
            settings = Settings.model_validate(
                {"key_files": [key], "machines": [one], **quick, **fields}
            )
            health = Health("power-manager", version="test")
            url = stack.enter_context(served(build_app(settings, health, new_registry())))
            headers = {"authorization": f"Bearer {SERVICE_KEY}"}
            client = httpx2.Client(base_url=url, headers=headers, timeout=30, trust_env=False)
            return stack.enter_context(client)

        yield start


def in_state(client: httpx2.Client, state: str) -> Json:
    """Wait until the machine is in this state, and return its report."""
    ends = time.monotonic() + 30
    while True:
        report: Json = client.get("/api/machines").raise_for_status().json()[0]
        if report["state"] == state:
            return report
        assert time.monotonic() < ends, report
        time.sleep(0.02)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with ExitStack() as stack:
        yield Lab(stack, tmp_path)
