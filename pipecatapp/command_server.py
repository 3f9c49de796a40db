"""Serve the application on a unix socket for one command of this process."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp

from hearth.service.state import StateDir
from pipecatapp.app import build_command_app
from pipecatapp.settings import Settings

LONGEST_FOLDER: Final = 80
"""Maximum characters of the folder of a socket: the kernel permits 107 for the whole path."""


class CommandServer(uvicorn.Server):
    """Serves until `stop`, and leaves the signals to the command."""

    def __init__(self, app: ASGIApp, **where: Any) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                **where,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=1,
            )
        )
        self.ready, self._end = asyncio.Event(), asyncio.Event()

    async def startup(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
        await super().startup(None)
        self.ready.set()

    async def main_loop(self) -> None:
        await self._end.wait()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """The command handles Ctrl-C: the first one cancels its run."""
        yield

    def stop(self) -> None:
        """End when the open answers are sent."""
        self.should_exit = True
        self._end.set()


@asynccontextmanager
async def serve_command(state: StateDir, **changes: Any) -> AsyncIterator[tuple[Path, str]]:
    """Open the application on a state directory; yield its socket and the key that opens it.

    `changes` are settings that replace those of the environment.
    At the end it waits for runs that the command has started. After an error they are left for
    the next start. Raises `SettingsError`, `LedgerBusy`, `LedgerFailed`, `LedgerTooNew`.
    """
    settings = Settings.load().model_copy(update={"state_dir": state.root, **changes})
    key = secrets.token_urlsafe(32)
    app = build_command_app(settings, key)
    folder = gettempdir() if len(gettempdir()) < LONGEST_FOLDER else "/tmp"
    with TemporaryDirectory(prefix="hearth-", dir=folder) as private:
        path = Path(private) / "http"
        async with app.router.lifespan_context(app), _serving(app, uds=str(path)):
            yield path, key


@asynccontextmanager
async def serve_scripted(app: ASGIApp) -> AsyncIterator[str]:
    """Serve a scripted model on a free port of the loopback interface; yield its address."""
    async with _serving(app, host="127.0.0.1", port=0) as server:
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"


@asynccontextmanager
async def _serving(app: ASGIApp, **where: Any) -> AsyncIterator[CommandServer]:
    server = CommandServer(app, **where)
    serving = asyncio.create_task(server.serve())
    try:
        await server.ready.wait()
        yield server
    finally:
        server.stop()
        await serving
