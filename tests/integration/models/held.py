"""A file server whose answers stop in the middle until a test lets them go on."""

import asyncio
from dataclasses import dataclass, field
from threading import Event

from starlette.types import Message, Receive, Scope, Send

from tests.integration.models.hub import Hub


@dataclass
class HeldHub:
    """An ASGI application: a `Hub` that sends half of each body, then waits for `go_on`."""

    content: bytes
    hub: Hub = field(init=False)
    go_on: Event = field(default_factory=Event)

    def __post_init__(self) -> None:
        self.hub = Hub(self.content)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def held(message: Message) -> None:
            body = message.get("body")
            if not isinstance(body, bytes):
                await send(message)
                return
            half = len(body) // 2
            await send({**message, "body": body[:half], "more_body": True})
            while not self.go_on.is_set():  # noqa: ASYNC110 (the event is another thread's)
                await asyncio.sleep(0.01)
            await send({**message, "body": body[half:]})

        await self.hub(scope, receive, held)
