"""`/api/voice`: a conversation by voice, over a WebSocket."""

import asyncio
import json
from dataclasses import dataclass
from typing import Final

import structlog
from fastapi import WebSocket
from pydantic import ValidationError
from starlette.websockets import WebSocketDisconnect

from pipecatapp.api.access import Access, knows
from pipecatapp.api.parts import Parts
from pipecatapp.api.routing import api_router
from pipecatapp.api.voice.runner import Runner
from pipecatapp.voice.messages import HEARD_RATE, SPOKEN_RATE, Hello
from pipecatapp.voice.studio import NoSpeech, Studio
from pipecatapp.voice.talk import CallerLeft, Talk
from pipecatapp.voice.workers import WorkerFailed

log = structlog.get_logger()
router = api_router()

POLICY_VIOLATION: Final = 1008
TRY_AGAIN: Final = 1013


@router.websocket("/api/voice")
async def voice(socket: WebSocket) -> None:
    """Serve a voice session: needs a login or a key, and our own page. Replies `busy` without a
    free one."""
    access: Access = socket.app.state.access
    if not knows(access, socket):
        await socket.close(POLICY_VIOLATION)
        return
    parts: Parts = socket.app.state.parts
    studio: Studio = socket.app.state.studio
    await socket.accept()
    person = Browser(socket)
    try:
        if not studio.admits():
            await person.tell(type="busy", text="All speech-to-text slots are in use. Try again.")
            await socket.close(TRY_AGAIN)
            return
        runner = Runner(parts, studio.keeps)
        try:
            await _talk(person, studio, runner)
        finally:
            await asyncio.shield(runner.forget())
    except (CallerLeft, WebSocketDisconnect):
        studio.metrics.ended.labels("left").inc()


async def _talk(person: "Browser", studio: Studio, house: Runner) -> None:
    """One admitted conversation."""
    try:
        hello = Hello.model_validate_json(await person.receive())
    except ValidationError:
        await person.tell(type="refused", reason="the first message is not a hello")
        await person.socket.close(POLICY_VIOLATION)
        return
    await person.tell(type="waking", heard_rate=HEARD_RATE, spoken_rate=SPOKEN_RATE)
    try:
        setup = await studio.setup(hello)
        async with studio.session() as (worker, ended):
            await Talk(person, worker, house, studio.metrics).hold(hello, setup, ended)
    except (NoSpeech, WorkerFailed) as error:
        log.warning("voice_refused", reason=str(error))
        await person.tell(type="trouble", part="worker", text=str(error))
    # The worker has ended, or never was there; the page may connect again.
    studio.metrics.ended.labels("broken").inc()
    await person.socket.close(TRY_AGAIN)


@dataclass(frozen=True)
class Browser:
    """A WebSocket as one side of a conversation."""

    socket: WebSocket

    async def receive(self) -> str | bytes:
        message = await self.socket.receive()
        if message["type"] == "websocket.disconnect":
            raise CallerLeft
        data: str | bytes | None = message.get("bytes")
        return data if data is not None else str(message.get("text", ""))

    async def send(self, message: str | bytes) -> None:
        try:
            if isinstance(message, bytes):
                await self.socket.send_bytes(message)
            else:
                await self.socket.send_text(message)
        except (RuntimeError, WebSocketDisconnect) as error:
            raise CallerLeft from error

    async def tell(self, **message: object) -> None:
        await self.send(json.dumps(message))
