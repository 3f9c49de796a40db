"""All services of an instance: started, supervised, and stopped in reverse order."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hearth.local.errors import UnknownService
from hearth.local.process.health import health_client
from hearth.local.process.keeper import Audience, Keeper
from hearth.local.process.service import Service
from hearth.local.process.warden import Warden
from hearth.process.restarts import RestartPolicy
from hearth.service.state import RunningService


class StopRequest:
    """The first request stops gracefully, the second one immediately."""

    def __init__(self) -> None:
        self.asked, self.hurry = asyncio.Event(), asyncio.Event()

    def ask(self) -> None:
        if self.asked.is_set():
            self.hurry.set()
        self.asked.set()


class Supervisor:
    """`await Supervisor(services, …).run(stop, …)` returns when all services have ended."""

    def __init__(
        self,
        services: Sequence[Service],
        *,
        folder: Path,
        logs: Path,
        audience: Audience,
        policy: RestartPolicy,
    ) -> None:
        self._services, self._audience, self._policy = services, audience, policy
        self._folder, self._logs = folder, logs
        self._keepers: list[Keeper] = []
        self._requests: set[asyncio.Task[Any]] = set()
        """Restarts and replacements under way; a stop ends them first."""

    def running(self) -> list[RunningService]:
        """The current processes of the services."""
        return [
            RunningService(
                name=keeper.service.name,
                pid=keeper.child.pid,
                port=keeper.service.port,
                url=keeper.service.url,
                since=keeper.child.since,
            )
            for keeper in self._keepers
            if keeper.child is not None
        ]

    async def run(
        self,
        stop: StopRequest,
        *,
        on_ready: Callable[[], None],
        on_restart: Callable[[], None],
    ) -> bool:
        """Start all services and supervise them until `stop`; returns whether all were ever
        healthy.

        Calls `on_ready` when all are healthy for the first time, and `on_restart` after a restart.
        When it returns or raises, no process of any service is left. Raises `StartFailed` and
        `ServiceGaveUp`.
        """
        async with Warden() as warden:
            self._keepers = [
                Keeper(
                    service,
                    folder=self._folder,
                    logs=self._logs,
                    warden=warden,
                    audience=self._audience,
                    policy=self._policy,
                    restarted=on_restart,
                )
                for service in self._services
            ]
            try:
                if not await _unless(stop.asked, self._start()):
                    return False
                on_ready()
                await _unless(stop.asked, _together(keeper.keep() for keeper in self._keepers))
                return True
            finally:
                await self._stop(stop)

    async def restart(self, name: str) -> None:
        """Stop a service and start it again. Raises `UnknownService`."""
        with self._ended_by_stop():
            await self._keeper(name).restart()

    async def replace(self, name: str, service: Service) -> None:
        """Run `service` in place of the one called `name`, and wait until it is healthy.

        Raises `NotReplaced`, with the service that ran before started again, and `UnknownService`.
        """
        with self._ended_by_stop():
            async with health_client() as client:
                await self._keeper(name).replace(service, client)

    def _keeper(self, name: str) -> Keeper:
        named = {keeper.service.name: keeper for keeper in self._keepers}
        if name not in named:
            raise UnknownService(name, list(named))
        return named[name]

    @contextmanager
    def _ended_by_stop(self) -> Iterator[None]:
        """Cancel the task of the block when the services are stopped: it must start none then."""
        task = asyncio.current_task()
        assert task is not None
        self._requests.add(task)
        try:
            yield
        finally:
            self._requests.discard(task)

    async def _stop(self, stop: StopRequest) -> None:
        requests = set(self._requests)
        for task in requests:
            task.cancel()
        await asyncio.gather(*requests, return_exceptions=True)
        for keeper in reversed(self._keepers):
            self._audience.condition(keeper.service.name, "stopping")
            await keeper.stop(stop.hurry)
            self._audience.condition(keeper.service.name, "stopped")

    async def _start(self) -> None:
        for keeper in self._keepers:
            self._audience.condition(keeper.service.name, "starting")
            await keeper.start()
        async with health_client() as client:
            await _together(keeper.become_healthy(client) for keeper in self._keepers)


async def _together(coroutines: Iterable[Coroutine[None, None, None]]) -> None:
    """Run all until each has ended or one has failed; the failure is raised."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def _unless(event: asyncio.Event, coroutine: Coroutine[None, None, None]) -> bool:
    """Run the coroutine until the event is set; returns whether it completed."""
    task, waiting = asyncio.create_task(coroutine), asyncio.create_task(event.wait())
    try:
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
            return True
        return False
    finally:
        waiting.cancel()
        task.cancel()
        await asyncio.wait({task})
