"""The worker's line to the service: what it tells, and how it asks the agent."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from pipecatapp.voice.stages import Stages


class AgentFailed(Exception):
    """The run gave no answer; the page has been told why."""


class Line:
    """One session. `stages` are those of the turn that is under way."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._answers: dict[int, asyncio.Queue[dict[str, Any]]] = {}
        self._turn = 0
        self.stages = Stages()

    def mark(self, moment: str, *, earlier: float = 0.0) -> None:
        """A moment of this turn is now, or was some seconds earlier."""
        self.stages.mark(moment, time.monotonic() - earlier)

    async def tell(self, **message: Any) -> None:
        """Say something to the service; nobody hears it after the end of the session."""
        try:
            await self._socket.send_text(json.dumps(message))
        except (WebSocketDisconnect, RuntimeError):
            return

    def answer(self, message: dict[str, Any]) -> None:
        """Take a piece of an answer; of a turn that was withdrawn nobody wants any."""
        queue = self._answers.get(message["turn"])
        if queue is not None:
            queue.put_nowait(message)

    async def ask(self, text: str) -> AsyncIterator[str]:
        """The agent's answer as it is written. Raises `AgentFailed`."""
        self._turn += 1
        turn, queue = self._turn, asyncio.Queue[dict[str, Any]]()
        self._answers[turn] = queue
        whole = False
        try:
            await self.tell(type="ask", turn=turn, text=text)
            while True:
                message = await queue.get()
                if message["type"] == "words":
                    yield message["text"]
                    continue
                whole = True
                if message["type"] == "failed":
                    raise AgentFailed(message["reason"])
                return
        finally:
            del self._answers[turn]
            if not whole:
                await asyncio.shield(self.tell(type="withdraw", turn=turn))
