"""OpenAI's own client of the Realtime API, whose events are held to its models."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from openai import AsyncOpenAI
from openai.resources.realtime.realtime import AsyncRealtimeConnection
from openai.types.realtime import RealtimeServerEvent
from pydantic import TypeAdapter

from tests.integration.gateway.conftest import KEY, Json

SERVER_EVENT: Final[TypeAdapter[Any]] = TypeAdapter(RealtimeServerEvent)
SECONDS: Final = 120.0


@dataclass
class Talk:
    """One session; every event that came is valid."""

    connection: AsyncRealtimeConnection
    events: list[Json] = field(default_factory=list)

    async def send(self, type: str, **fields: Any) -> None:
        """Send an event as the client's method for it does."""
        await self.connection.send({"type": type, **fields})  # type: ignore[arg-type]

    async def gets(self, type: str) -> Json:
        """Receive events up to the first of this type, and return that."""
        async with asyncio.timeout(SECONDS):
            while True:
                data = await self.connection.recv_bytes()
                event: Json = SERVER_EVENT.validate_json(data).to_dict(mode="json")
                self.events.append(event)
                if event["type"] == type:
                    return event

    async def update(self, **session: Any) -> Json:
        """Change the settings; return all of them."""
        await self.send("session.update", session={"type": "realtime", **session})
        found: Json = (await self.gets("session.updated"))["session"]
        return found

    async def says(self, text: str) -> None:
        """Add a message of the user."""
        content = [{"type": "input_text", "text": text}]
        item = {"type": "message", "role": "user", "content": content}
        await self.send("conversation.item.create", item=item)

    async def asks(self, text: str) -> Json:
        """Add a message and return the response to it."""
        await self.says(text)
        await self.send("response.create")
        found: Json = (await self.gets("response.done"))["response"]
        return found

    async def refused(self, type: str, **fields: Any) -> Json:
        """Send an event that has no effect; return the error."""
        await self.send(type, event_id="mine", **fields)
        found: Json = (await self.gets("error"))["error"]
        return found

    def types(self) -> list[str]:
        return [event["type"] for event in self.events]

    def joined(self, type: str) -> str:
        """The deltas of this type in one string."""
        return "".join(event["delta"] for event in self.events if event["type"] == type)


@asynccontextmanager
async def talk(
    gateway: str, model: str = "small", *, key: str = KEY, text: bool = True
) -> AsyncIterator[Talk]:
    """A session at this gateway; its answers are text, or audio."""
    async with (
        AsyncOpenAI(base_url=f"{gateway.rstrip('/')}/v1", api_key=key) as client,
        client.realtime.connect(model=model) as connection,
    ):
        session = Talk(connection)
        await session.gets("session.created")
        if text:
            await session.update(output_modalities=["text"])
        yield session
