"""Serve the first model of a list that fits, loads and answers; say which, and why not others."""

import asyncio
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import psutil
import structlog

from hearth.models.catalogue import Catalogue, Model
from hearth.models.errors import ModelError
from hearth.models.store import ModelStore
from llama_expert.engine import check
from llama_expert.settings import Settings, engine_environment

log = structlog.get_logger()
STOP_SECONDS = 10.0
POLL_SECONDS = 0.1


class ExpertFailed(Exception):
    """The message says why no model is served; the log has the engine's own words."""


class Launcher:
    """One expert: an engine process that is watched, and the list of models to try in it."""

    def __init__(self, settings: Settings, catalogue: Catalogue) -> None:
        self.settings, self.catalogue = settings, catalogue
        self.store = ModelStore(settings.model_dir)
        self.skipped: dict[str, str] = {}

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set.

        Raises `ExpertFailed` when no model works, or the engine ends while it serves.
        """
        check(self.settings)
        need_port(str(self.settings.host), self.settings.port)
        for name in self.settings.models:
            reason = await self._unfit(name) or await self._serve(name, stop)
            if reason is None:
                return
            self.skipped[name] = reason
            log.warning("model_skipped", model=name, reason=reason)
        reasons = " ".join(f"{name}: {reason}" for name, reason in self.skipped.items())
        raise ExpertFailed(f"No model of the expert {self.settings.name} works. {reasons}")

    async def _unfit(self, name: str) -> str | None:
        """Why the model need not even be loaded."""
        try:
            model = self.catalogue[name]
            await asyncio.to_thread(self.store.ready, model)
        except ModelError as error:
            return str(error)
        return too_big(model, psutil.virtual_memory().available)

    async def _serve(self, name: str, stop: asyncio.Event) -> str | None:
        """Serve the model until `stop`; why it could not be served, else nothing."""
        async with self._engine(name) as engine:
            reason = await self._answers(engine, stop)
            if reason is not None:
                return reason
            if not stop.is_set():
                log.info(
                    "expert_ready",
                    model=name,
                    engine=self.settings.engine,
                    port=self.settings.port,
                    skipped=self.skipped,
                )
                await first_of(engine.wait(), stop.wait())
        if not stop.is_set():
            raise ExpertFailed(f"The engine that served {name} {ended(engine)}.")
        return None

    @asynccontextmanager
    async def _engine(self, name: str) -> AsyncIterator[Process]:
        """The engine's process; leaving the block ends it."""
        command = [sys.executable, "-m", "llama_expert.engine", name]
        # Its own session: Ctrl-C in a terminal reaches the launcher alone, which then ends it.
        engine = await asyncio.create_subprocess_exec(
            *command, env=engine_environment(), start_new_session=True
        )
        try:
            yield engine
        finally:
            if engine.returncode is None:
                engine.terminate()
                try:
                    await asyncio.wait_for(engine.wait(), STOP_SECONDS)
                except TimeoutError:
                    log.warning("engine_killed", model=name, after_seconds=STOP_SECONDS)
                    engine.kill()
                    await engine.wait()

    async def _answers(self, engine: Process, stop: asyncio.Event) -> str | None:
        """Wait until the engine is healthy, or `stop`; why it will never be, else nothing."""
        url = f"http://{self.settings.host}:{self.settings.port}/health"
        ends = asyncio.get_running_loop().time() + self.settings.load_timeout
        async with httpx2.AsyncClient(timeout=5, trust_env=False) as http:
            while asyncio.get_running_loop().time() < ends:
                if engine.returncode is not None:
                    return f"the engine {ended(engine)} while it loaded the model."
                if stop.is_set() or await healthy(http, url):
                    return None
                await asyncio.sleep(POLL_SECONDS)
        return f"the engine was not ready within {self.settings.load_timeout:g} s."


def too_big(model: Model, available: int) -> str | None:
    """Why the model does not fit into so many bytes of free memory."""
    if model.ram_bytes <= available:
        return None
    return f"it needs {model.ram_bytes / 1e9:.1f} GB of memory, {available / 1e9:.1f} GB are free."


def need_port(host: str, port: int) -> None:
    """Raise `ExpertFailed` when somebody else listens there."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise ExpertFailed(
                f"Port {port} of {host} cannot be used ({error.strerror}): end the program that"
                " has it, or set LLAMA_EXPERT_PORT."
            ) from error


async def healthy(http: httpx2.AsyncClient, url: str) -> bool:
    """Whether the engine says that it can answer."""
    try:
        answer = await http.get(url)
    except httpx2.TransportError:
        return False
    return answer.status_code == 200


def ended(engine: Process) -> str:
    """How a process ended, in words."""
    code = engine.returncode or 0
    return f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"


async def first_of(*waits: Coroutine[Any, Any, object]) -> None:
    """Return when one of them is done; the others are cancelled."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
