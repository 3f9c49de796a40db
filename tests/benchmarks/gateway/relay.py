"""What passes bytes on and looks at none of them, on the gateway's own event loop.

`relay.py PORT MODEL_PORT ...`: each caller gets a connection to one of the models, for as long as
it stays. What reads HTTP, checks a key and chooses a server on this loop cannot be quicker.
"""

import asyncio
import gc
import itertools
import sys
from collections.abc import Callable, Iterator

import uvloop

HOST = "127.0.0.1"


class ToModel(asyncio.Protocol):
    """The side of the model; what it says is `passed_on`."""

    def __init__(self, passed_on: Callable[[bytes], None]) -> None:
        self._passed_on = passed_on

    def data_received(self, data: bytes) -> None:
        self._passed_on(data)


class FromCaller(asyncio.Protocol):
    """The side of one caller."""

    def __init__(self, models: Iterator[int]) -> None:
        self._port, self._early = next(models), b""
        self._model: asyncio.WriteTransport | None = None
        self._reaching: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.WriteTransport) -> None:  # type: ignore[override]
        self._reaching = asyncio.create_task(self._reach(transport))

    async def _reach(self, caller: asyncio.WriteTransport) -> None:
        loop = asyncio.get_running_loop()
        self._model, _ = await loop.create_connection(
            lambda: ToModel(caller.write), HOST, self._port
        )
        self._model.write(self._early)

    def data_received(self, data: bytes) -> None:
        if self._model is None:
            self._early += data
        else:
            self._model.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._model is not None:
            self._model.close()


async def main(port: int, *models: int) -> None:
    """Serve until it is killed."""
    turns, loop = itertools.cycle(models), asyncio.get_running_loop()
    server = await loop.create_server(lambda: FromCaller(turns), HOST, port)
    await server.serve_forever()


if __name__ == "__main__":
    gc.freeze()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(*map(int, sys.argv[1:])))
