"""The server of every service: a stop that finishes what is under way."""

import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import httpx2
import pytest

from tests.ports import free_port

SERVICE = """
import asyncio, signal, sys
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from hearth.service.health import Health
from hearth.service.metrics import new_registry
from hearth.service.server import serve, service_routes

health = Health("oven", version="1")
release = asyncio.Event()

async def slow(request):
    print("baking", flush=True)
    await release.wait()
    return PlainTextResponse(f"done while ready={health.ready}")

async def interrupted(request):
    signal.raise_signal(signal.SIGTERM)
    return PlainTextResponse(f"stopped in the middle: {release.is_set()}")

async def free(request):
    release.set()
    return PlainTextResponse("released")

app = Starlette(routes=[Route("/slow", slow), Route("/free", free),
                        Route("/interrupted", interrupted),
                        *service_routes(health, new_registry())])
health.started()
serve(app, host=sys.argv[2], port=int(sys.argv[1]), health=health, drain_seconds=10,
      on_stop=release.set)
print("ended", *({"encodings.idna"} & sys.modules.keys()), flush=True)
"""
"""It says at its end whether tables for names were loaded, which no address needs."""


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def host() -> str:
    return "127.0.0.1"


@pytest.fixture
def service(port: int, host: str) -> Iterator[subprocess.Popen[str]]:
    """The service above, as a process that answers."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVICE, str(port), host], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        while not _answers(f"[{host}]" if ":" in host else host, port):
            assert process.poll() is None
        yield process
        process.kill()


def _answers(host: str, port: int) -> bool:
    try:
        return httpx2.get(f"http://{host}:{port}/health").is_success
    except httpx2.TransportError:
        return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stop_finishes_the_request_under_way_and_exits_with_0(
    service: subprocess.Popen[str], port: int, number: signal.Signals
) -> None:
    """An update must not cut an answer in two, and a clean stop is no failure."""
    answers: list[str] = []
    caller = threading.Thread(
        target=lambda: answers.append(httpx2.get(f"http://127.0.0.1:{port}/slow", timeout=60).text)
    )
    caller.start()
    assert service.stdout is not None
    assert service.stdout.readline() == "baking\n"
    service.send_signal(number)
    caller.join(60)
    out, err = service.communicate(timeout=60)

    assert answers == ["done while ready=False"]
    assert service.returncode == 0, err
    assert out == "ended\n"
    assert "Traceback" not in err


def test_signal_does_not_interrupt_a_statement_of_a_request(
    service: subprocess.Popen[str], port: int
) -> None:
    """What ends streams uses asyncio's events, which a signal handler must not change."""
    answer = httpx2.get(f"http://127.0.0.1:{port}/interrupted", timeout=60)
    service.communicate(timeout=60)

    assert answer.text == "stopped in the middle: False"
    assert service.returncode == 0


def test_port_that_is_taken_ends_the_service_with_a_failure(port: int) -> None:
    """A supervisor must see that it did not start."""
    with socket.create_server(("127.0.0.1", port)):
        ended = subprocess.run(
            [sys.executable, "-c", SERVICE, str(port), "127.0.0.1"], capture_output=True, text=True,
            timeout=60, check=False,
        )  # fmt: skip

    assert ended.returncode == 1
    assert "Address already in use" in ended.stdout


@pytest.mark.parametrize("host", ["::1"])
@pytest.mark.usefixtures("service")
def test_service_answers_at_an_address_of_ipv6(port: int) -> None:
    """`HOST=::1` is an address like others, and it is the only one that answers then."""
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(f"http://127.0.0.1:{port}/health")
