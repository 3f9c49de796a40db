"""How many conversations by voice there may be at the same time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import structlog
from websockets.asyncio.client import ClientConnection

from hearth.service.metrics import new_registry
from pipecatapp.voice.messages import Hello
from pipecatapp.voice.metrics import VoiceMetrics
from pipecatapp.voice.studio import Studio
from pipecatapp.voice.talk import CallerLeft, House, Person, Talk
from pipecatapp.voice.workers import Workers


class BusyMachine(Workers):
    """Its workers take their time to close a connection, and a conversation to clean up."""

    def __init__(self, metrics: VoiceMetrics) -> None:
        super().__init__({}, metrics, most_bytes=0)
        self.leaving, self.goes_on = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def session(self) -> AsyncIterator[ClientConnection]:
        yield cast("ClientConnection", self)
        await self.goes_on.wait()

    async def send(self, message: str) -> None:
        """Take what the worker is to know."""

    async def __aiter__(self) -> AsyncIterator[str]:
        try:
            await asyncio.Event().wait()
        finally:
            self.leaving.set()
            await self.goes_on.wait()
        yield ""


class Leaving:
    """A person who leaves at once."""

    async def receive(self) -> str:
        raise CallerLeft


async def engines() -> tuple[str, str]:
    return "http://127.0.0.1:9", "http://127.0.0.1:9"


async def test_place_is_free_when_its_conversation_ends() -> None:
    """On a busy machine the third of three people was refused, since the place of one who had left
    was kept until all of that conversation was cleaned up."""
    metrics = VoiceMetrics(new_registry())
    workers = BusyMachine(metrics)
    studio = Studio(workers, metrics, engines, key="", ca_file=None, most=1)

    async def conversation() -> None:
        hello = Hello(type="hello")
        async with studio.session() as (worker, ended):
            talk = Talk(cast("Person", Leaving()), worker, cast("House", None), metrics)
            await talk.hold(hello, await studio.setup(hello), ended)

    left = asyncio.create_task(conversation())
    async with asyncio.timeout(60):
        await workers.leaving.wait()

    assert not left.done()
    assert studio.admits()
    workers.goes_on.set()
    await asyncio.gather(left, return_exceptions=True)
    assert studio.admits()


async def test_reason_of_a_refusal_is_logged() -> None:
    """The person hears that the house is full; who runs it must see how many places it has."""
    metrics = VoiceMetrics(new_registry())
    studio = Studio(BusyMachine(metrics), metrics, engines, key="", ca_file=None, most=0)

    with structlog.testing.capture_logs() as lines:
        assert not studio.admits()

    refused: list[Any] = [(line["event"], line["reason"], line["places"]) for line in lines]
    assert refused == [("voice_refused", "every place is taken", 0)]
