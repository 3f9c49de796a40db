"""Fixtures for everybody. A server here is a real one, on a real socket."""

import asyncio
import gc
import os
import signal
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache

import httpcore2
import hypothesis
import pytest
import structlog
import uvicorn
from starlette.types import ASGIApp

pytest_plugins = [
    "tests.at_once",
    "tests.rings",
    "tests.extended",
    "tests.proofs",
    "tests.shown",
    "tests.strict",
    "tests.isolation",
]

# A deadline for each example measures how busy the machine is.
hypothesis.settings.register_profile(
    "suite", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("suite")


@pytest.hookimpl(tryfirst=True)
def pytest_configure() -> None:
    """Disable garbage collection while tests are collected: no object of an import is garbage.

    A shell starts background commands, such as the lanes of `.ci/run`, with SIGINT ignored, and
    programs that tests start and interrupt would inherit that.
    """
    gc.disable()
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Set garbage collection as the services do, many of which run in this process.

    With Python's own settings, a third of the processor time of such tests was the collector's.
    """
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    gc.enable()


_read_trust = httpcore2.default_ssl_context


@cache
def _trust_of(_named: tuple[str | None, ...], trust_env: bool) -> ssl.SSLContext:  # noqa: FBT001
    return _read_trust(_trust_env=trust_env)


def _trust(*, _trust_env: bool = True) -> ssl.SSLContext:
    """What a client trusts that is not told whom: read once. It takes 20 ms, and the suite makes
    thousands of clients, some of them to ask whether a service is up yet."""
    named = ("SSL_CERT_FILE", "SSL_CERT_DIR")
    return _trust_of(tuple(map(os.environ.get, named)), _trust_env)


httpcore2.default_ssl_context = _trust


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def logs_as_at_start() -> Iterator[None]:
    """A service that runs inside a test configures the logs of the whole process."""
    yield
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


@pytest.fixture
def serve() -> Iterator[Callable[[ASGIApp], str]]:
    """`serve(app)` runs an ASGI application on a free port and returns its address."""
    with ExitStack() as running:
        yield lambda app: running.enter_context(served(app))


WATCHER = "_shutdown_watcher"
"""A task of sse_starlette, one for each loop, which holds nothing and ends with the loop."""


class PromptServer(uvicorn.Server):
    """Ends when it is told to and its answers are out. uvicorn's own looks ten times a second
    whether it shall end, and waits as long for those who have gone: a third of a second for what
    takes none, and most servers here serve one test.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._told = asyncio.Event()

    def stop(self) -> None:
        """Tell it to end; from any thread."""
        self.should_exit = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._told.set)

    async def main_loop(self) -> None:
        self._loop = asyncio.get_running_loop()
        ticking = asyncio.create_task(super().main_loop())  # It sees to the header `date`.
        telling = asyncio.create_task(self._told.wait())
        await asyncio.wait({ticking, telling}, return_when=asyncio.FIRST_COMPLETED)
        for task in (ticking, telling):
            task.cancel()
        await asyncio.wait({ticking, telling})

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        state = self.server_state
        ended: set[object] = set()
        for server in self.servers:
            server.close()
        await asyncio.sleep(0.005)
        with suppress(TimeoutError):
            async with asyncio.timeout(self.config.timeout_graceful_shutdown):
                while state.connections or state.tasks:
                    # A busy machine can take a while to tell of one that was let in before.
                    for connection in state.connections - ended:
                        connection.shutdown()
                        ended.add(connection)
                    await asyncio.sleep(0.005)
        for connection in list(state.connections):
            connection.transport.abort()
        for task in state.tasks:
            task.cancel()
        await self.lifespan.shutdown()
        tasks = asyncio.all_tasks() - state.tasks - {asyncio.current_task()}
        left = [task for task in tasks if WATCHER not in repr(task.get_coro())]
        assert not left, f"{self.config.app} ended without waiting for what it began: {left}"


@contextmanager
def served(
    app: ASGIApp, http: type[asyncio.Protocol] | None = None, port: int = 0
) -> Iterator[str]:
    """Run `app` in a thread, on a free loopback port where none is given; yield its address.
    `http`: as in `serve`."""
    config = uvicorn.Config(
        app, port=port, http=http or "auto", log_level="warning", timeout_graceful_shutdown=1,
        timeout_keep_alive=65,  # longer than clients keep a connection, as our services have it
    )  # fmt: skip
    server = PromptServer(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        if not thread.is_alive():
            raise RuntimeError("The server died while starting; its log is above.")
        time.sleep(0.005)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.stop()
        thread.join()
