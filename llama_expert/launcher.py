"""Serve the first model of a list that fits, loads and answers, and record the reason."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext

import structlog

from hearth.cluster.watch import ConsulAgent
from hearth.models.catalogue import Catalogue
from hearth.models.errors import ModelError
from hearth.models.store import ModelStore
from hearth.service.logs import lasting
from llama_expert.engine import check
from llama_expert.memory import free_memory, too_big
from llama_expert.metrics import ExpertMetrics, measured
from llama_expert.process import answers, drained, engine_process, first_of
from llama_expert.registration import Registration, entry
from llama_expert.settings import Settings
from llama_expert.workers import Workers

log = structlog.get_logger()
Addresses = tuple[str, ...]


class ExpertFailed(Exception):
    """The message states why no model is served; the log has the output of the engine."""


class Launcher:
    """One expert: an engine process that is watched, and the list of models to try in it."""

    def __init__(self, settings: Settings, catalogue: Catalogue) -> None:
        self.settings, self.catalogue = settings, catalogue
        self.store = ModelStore(settings.model_dir)
        self.skipped: dict[str, str] = {}
        self.consul = consul_agent(settings)
        self.workers = Workers(self.consul) if settings.rpc and self.consul else None
        self._began_with: Addresses = ()

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set.

        Raises `ExpertFailed` when no model works, or the engine ends while it serves.
        """
        check(self.settings)
        need_port(str(self.settings.host), self.settings.port)
        with measured(self.settings) as metrics:
            async with self._followed():
                while not stop.is_set():
                    await self._round(metrics, stop)

    async def _round(self, metrics: ExpertMetrics, stop: asyncio.Event) -> None:
        """Try the list from its beginning; serve until `stop`, or other RPC workers are there."""
        self.skipped.clear()
        workers = self._began_with = await self.workers.now() if self.workers else ()
        for name, helped_by in self._attempts(workers):
            unfit = await self._unfit(name, helped_by)
            reason = unfit or await self._serve(name, helped_by, metrics, stop)
            if reason is None:
                return
            metrics.skipped(name, loaded=unfit is None)
            self.skipped[name] = reason
            log.warning("model_skipped", model=name, reason=reason, rpc_workers=len(helped_by))
        reasons = " ".join(f"{name}: {reason}" for name, reason in self.skipped.items())
        raise ExpertFailed(f"No model of the expert {self.settings.name} works. {reasons}")

    def _attempts(self, workers: Addresses) -> Iterator[tuple[str, Addresses]]:
        """Yield the models, best first; with workers, then the last model without them."""
        models = self.settings.models
        yield from ((name, workers) for name in models)
        if workers:
            yield models[-1], ()

    async def _unfit(self, name: str, workers: Addresses) -> str | None:
        """Why the model need not even be loaded."""
        try:
            model = self.catalogue[name]
            await asyncio.to_thread(self.store.ready, model)
        except ModelError as error:
            return str(error)
        except OSError as error:
            return f"its file cannot be read ({error.strerror}: {error.filename})."
        free = await asyncio.to_thread(free_memory, self.settings.backend)
        return too_big(model, free + (self.workers.memory(workers) if self.workers else 0))

    async def _serve(
        self, name: str, workers: Addresses, metrics: ExpertMetrics, stop: asyncio.Event
    ) -> str | None:
        """Serve the model until it is stopped; returns the reason if it cannot be served, else
        None."""
        async with engine_process(name, workers) as engine:
            reason = await answers(engine, self.settings, stop)
            if reason is not None or stop.is_set():
                return reason
            self._say_ready(name, workers)
            metrics.serving(name, len(workers))
            async with self._registered(name, workers):
                await first_of(engine.wait(), stop.wait(), self._other_workers())
            metrics.serving(None)
            died = not engine.running
            if not died:
                await drained(self.settings)
        if died and not stop.is_set():
            raise ExpertFailed(f"The engine that served {name} ended with {engine.ended_with}.")
        return None

    def _say_ready(self, name: str, workers: Addresses) -> None:
        log.info(
            "expert_ready",
            model=name,
            engine=self.settings.engine,
            port=self.settings.port,
            skipped=self.skipped,
            rpc_workers=list(workers),
        )

    def _registered(self, name: str, workers: Addresses) -> AbstractAsyncContextManager[None]:
        if self.consul is None:
            return nullcontext()
        body = entry(self.settings, self.catalogue[name], self._why(), len(workers))
        return Registration(self.consul, body).kept()

    def _why(self) -> str:
        """Why this model of the list runs."""
        if not self.skipped:
            return "It is the first of the list."
        return " ".join(f"{name}: {reason}" for name, reason in self.skipped.items())

    async def _other_workers(self) -> None:
        """Return when Consul names other RPC workers than this round began with."""
        if self.workers is None:
            await asyncio.Event().wait()
        else:
            await self.workers.differ_from(self._began_with)
            log.info("rpc_workers_changed", before=list(self._began_with))

    @asynccontextmanager
    async def _followed(self) -> AsyncIterator[None]:
        """Inside the block the workers are followed."""
        following = asyncio.create_task(lasting(self.workers.run)) if self.workers else None
        try:
            yield
        finally:
            if following is not None:
                following.cancel()
                await asyncio.wait([following])


def consul_agent(settings: Settings) -> ConsulAgent | None:
    """The Consul agent of this machine; none without a cluster."""
    if settings.consul_url is None:
        return None
    url = str(settings.consul_url)
    return ConsulAgent(url, settings.consul_token_file, settings.consul_ca_file)


def need_port(host: str, port: int) -> None:
    """Raise `ExpertFailed` if another process listens on the port."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise ExpertFailed(
                f"Port {port} of {host} cannot be used ({error.strerror}): end the program that"
                " has it, or set LLAMA_EXPERT_PORT."
            ) from error
