"""Fixtures for everybody. A server here is a real one, on a real socket."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
import structlog
import uvicorn
from starlette.types import ASGIApp

pytest_plugins = ["tests.rings", "tests.proofs", "tests.shown", "tests.strict"]


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
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        if not thread.is_alive():
            raise RuntimeError("The server died while starting; its log is above.")
        time.sleep(0.005)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
