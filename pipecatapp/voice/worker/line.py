"""The worker's connection to the service: its messages, and its questions to the agent."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from starlette.websockets import WebSocket, WebSocketDisconnect

from pipecatapp.voice.stages import Stages

LOOKS: Final = 20
"""Checks of the event loop per second."""


class AgentFailed(Exception):
    """The run gave no answer; the page has received the reason."""


class Line:
    """One session. `stages` are those of the current turn, `voice` is the voice of the answer."""

    def __init__(self, socket: WebSocket, voice: str) -> None:
        self._socket, self.voice = socket, voice
        self._answers: dict[int, asyncio.Queue[dict[str, Any]]] = {}
        self._turn = 0
        self.stages = Stages()
        self.on_wake: Callable[[], None] = do_nothing

    def mark(self, moment: str, *, earlier: float = 0.0) -> None:
        """A moment of this turn is now, or was some seconds earlier."""
        self.stages.mark(moment, time.monotonic() - earlier)

    async def tell(self, **message: Any) -> None:
        """Send a message to the service; it is discarded after the end of the session."""
        try:
            await self._socket.send_text(json.dumps(message))
        except (WebSocketDisconnect, RuntimeError):
            return

    def answer(self, message: dict[str, Any]) -> None:
        """Receive a part of an answer; parts of a withdrawn turn are discarded."""
        queue = self._answers.get(message["turn"])
        if queue is not None:
            queue.put_nowait(message)

    async def judged(self, complete: bool) -> None:  # noqa: FBT001
        """How a pause sounded to the turn detector."""
        await self.tell(type="judged", complete=complete)

    async def watch_lag(self) -> None:
        """Report each second the maximum lag of the event loop."""
        while True:
            latest = 0.0
            for _ in range(LOOKS):
                began = time.monotonic()
                await asyncio.sleep(1 / LOOKS)
                latest = max(latest, time.monotonic() - began - 1 / LOOKS)
            await self.tell(type="lag", seconds=latest)

    async def ask(self, text: str) -> AsyncIterator[str]:
        """Yield the agent's answer as it is written. Raises `AgentFailed`."""
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


def do_nothing() -> None:
    """Do nothing: no task waits."""
