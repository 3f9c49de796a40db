"""`/v1/realtime`: OpenAI's Realtime API; callers of other machines come through the gateway."""

import asyncio
from typing import Final

from fastapi import WebSocket
from starlette.websockets import WebSocketDisconnect

from hearth.openai_api.client import ModelClient
from pipecatapp.api.access import Access, knows
from pipecatapp.api.parts import Parts
from pipecatapp.api.routing import api_router
from pipecatapp.api.voice.runner import Runner
from pipecatapp.api.voice.socket import POLICY_VIOLATION, Browser
from pipecatapp.application.callers import CALLER
from pipecatapp.application.registry import AGENT
from pipecatapp.voice.realtime.connection import Connection, House
from pipecatapp.voice.studio import Studio
from pipecatapp.voice.talk import CallerLeft

router = api_router()

SUBPROTOCOL: Final = "realtime"


@router.websocket("/v1/realtime")
async def realtime(socket: WebSocket, model: str = AGENT) -> None:
    """Serve one session with this model of the gateway, until the client leaves. Needs a key, or a
    login and our own page.
    """
    access: Access = socket.app.state.access
    if not knows(access, socket):
        await socket.close(POLICY_VIOLATION)
        return
    parts: Parts = socket.app.state.parts
    studio: Studio = socket.app.state.studio
    client: ModelClient = socket.app.state.model_client
    offered = socket.scope["subprotocols"]
    await socket.accept(SUBPROTOCOL if SUBPROTOCOL in offered else None)
    runner = Runner(parts, studio.keeps)
    behalf = socket.headers.get(CALLER)
    headers = {CALLER: behalf} if behalf else {}
    house = House(studio, client, headers, runner.started.append)
    try:
        await Connection(Browser(socket), house, model).serve()
    except (CallerLeft, WebSocketDisconnect):
        return
    finally:
        await asyncio.shield(runner.forget())
