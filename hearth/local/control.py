"""The server for the requests of `hearth.service.control`, in the process of `hearth up`."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Final

from pydantic import ValidationError

from hearth.local.embedded import ExpertPlan
from hearth.local.errors import LocalError, NoExpert
from hearth.local.process.supervisor import Supervisor
from hearth.models.choice import keep, with_model
from hearth.models.errors import ModelError
from hearth.service.control import LONGEST_LINE, Reply, Request
from hearth.service.names import expert_service
from hearth.service.settings import SettingsError

LONGEST_FOLDER: Final = 80
"""Maximum characters of the folder of a socket: the kernel permits 107 for the whole path."""

Handler = Callable[[Request], Awaitable[None]]
"""Carries out a request. Raises `LocalError`, `ModelError` or `SettingsError`."""


class Controller:
    """Carries out requests on the services of a supervisor.

    `models` are those that the expert of `experts` tries at its start, best first.
    """

    def __init__(
        self, supervisor: Supervisor, experts: ExpertPlan | None, models: Sequence[str]
    ) -> None:
        self._supervisor, self._experts, self._models = supervisor, experts, list(models)
        self._changing = asyncio.Lock()

    async def __call__(self, request: Request) -> None:
        """Carry out a request. Raises `LocalError`, `ModelError` and `SettingsError`."""
        if request.action == "restart":
            await self._supervisor.restart(request.name)
            return
        if self._experts is None:
            raise NoExpert
        async with self._changing:
            await self._serve(request.name, self._experts)

    async def _serve(self, name: str, experts: ExpertPlan) -> None:
        """Restart the expert with the model `name` first. The choice is stored when it is
        healthy."""
        state, catalogue = experts.options.state, experts.catalogue
        choice = with_model(name, state, catalogue)
        models = [catalogue[one] for one in choice.models]
        before = [catalogue[one] for one in self._models]
        experts.tell_gateway(models)
        try:
            running = expert_service(before[0].name)
            await self._supervisor.replace(running, experts.service(models))
        except BaseException:
            experts.tell_gateway(before)
            raise
        self._models = choice.models
        keep(choice, state)


@asynccontextmanager
async def serving(handle: Handler) -> AsyncIterator[Path]:
    """Listen on a unix socket that only this user can open, and yield its path.

    Active requests are cancelled at the end of the block.
    """
    folder = gettempdir() if len(gettempdir()) < LONGEST_FOLDER else "/tmp"
    with TemporaryDirectory(prefix="hearth-", dir=folder) as private:
        path = Path(private) / "control"
        requests: set[asyncio.Task[None]] = set()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(_answer(handle, reader, writer))
            requests.add(task)
            task.add_done_callback(requests.discard)

        server = await asyncio.start_unix_server(accept, path, limit=LONGEST_LINE)
        try:
            yield path
        finally:
            server.close()
            for task in requests:
                task.cancel()
            await asyncio.gather(*requests, return_exceptions=True)


async def _answer(
    handle: Handler, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    # The client may be the service that is restarted; then nothing reads the reply.
    with suppress(ConnectionError):
        try:
            reply = await _reply(handle, await reader.readline())
            writer.write(reply.model_dump_json().encode() + b"\n")
            await writer.drain()
        finally:
            writer.close()


async def _reply(handle: Handler, line: bytes) -> Reply:
    try:
        await handle(Request.model_validate_json(line))
    except ValidationError:
        return Reply(error="The request is not valid.")
    except (LocalError, ModelError, SettingsError) as error:
        return Reply(error=str(error))
    return Reply()
