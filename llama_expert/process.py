"""The engine's process: started, watched until it answers, ended with nothing left."""

import asyncio
import sys
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import structlog

from hearth.process.child import Child, StopOrder
from hearth.service.settings import read_key
from llama_expert.settings import Settings, engine_environment

log = structlog.get_logger()
STOP = StopOrder(term=10.0)
POLL_SECONDS = 0.1


@asynccontextmanager
async def engine_process(model: str, workers: Sequence[str]) -> AsyncIterator[Child]:
    """The engine with one model, and the RPC workers that hold a part of it; leaving ends it."""
    command = [sys.executable, "-m", "llama_expert.engine", model, *workers]
    # Its own session: Ctrl-C in a terminal reaches the launcher alone, which then ends it.
    engine = await Child.spawn(*command, env=engine_environment())
    try:
        yield engine
    finally:
        stopped = engine.running
        if await engine.stop(STOP) == "SIGKILL" and stopped:
            log.warning("engine_killed", model=model, after_seconds=STOP.term)


async def answers(engine: Child, settings: Settings, stop: asyncio.Event) -> str | None:
    """Wait until the engine is healthy, or `stop`; why it will never be, else nothing."""
    url = f"{address(settings)}/health"
    loop = asyncio.get_running_loop()
    ends = loop.time() + settings.load_timeout
    async with httpx2.AsyncClient(timeout=5, trust_env=False) as http:
        while loop.time() < ends:
            if not engine.running:
                return f"the engine ended with {engine.ended_with} while it loaded the model."
            if stop.is_set() or await healthy(http, url):
                return None
            await asyncio.sleep(POLL_SECONDS)
    return f"the engine was not ready within {settings.load_timeout:g} s."


async def drained(settings: Settings) -> None:
    """Wait until the engine has no active requests, at most `drain_seconds`."""
    key = {"Authorization": f"Bearer {read_key(settings.key_file)}"}
    loop = asyncio.get_running_loop()
    ends = loop.time() + settings.drain_seconds
    async with httpx2.AsyncClient(timeout=5, trust_env=False, headers=key) as http:
        while loop.time() < ends:
            if not await busy(http, f"{address(settings)}/slots"):
                return
            await asyncio.sleep(POLL_SECONDS)


async def healthy(http: httpx2.AsyncClient, url: str) -> bool:
    """Return whether the engine is ready."""
    try:
        answer = await http.get(url)
    except httpx2.TransportError:
        return False
    return answer.status_code == 200


async def busy(http: httpx2.AsyncClient, url: str) -> bool:
    """Return whether the engine has an active request; False if it does not report that, or
    ended."""
    try:
        answer = await http.get(url)
    except httpx2.TransportError:
        return False
    return answer.status_code == 200 and any(slot["is_processing"] for slot in answer.json())


def address(settings: Settings) -> str:
    """Where the engine answers."""
    return f"http://{settings.host}:{settings.port}"


async def first_of(*waits: Coroutine[Any, Any, object]) -> None:
    """Return when one of them is done; the others are cancelled."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
