"""A speech service that says what it got, on a real socket."""

import asyncio
import json
import threading
from typing import Any

from starlette.types import Receive, Scope, Send

SOUND = b"RIFF" + bytes(range(256)) * 40


class Speech:
    """`kind` is stt or tts. `breaks`: it closes the connection in mid-answer. `held`: what comes
    after the first piece is not sent before this is set."""

    def __init__(self, kind: str, *models: str, breaks: bool = False, wait: float = 0.0) -> None:
        self.kind, self.models, self.breaks, self.wait = kind, models or (kind,), breaks, wait
        self.held: threading.Event | None = None
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.gone = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            for step in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{step}.complete"})
        elif scope["path"] == "/v1/models":
            await self._json(send, {"object": "list", "data": [{"id": m} for m in self.models]})
        elif scope["path"] == "/health":
            await self._json(send, {"status": "ok"})
        else:
            await self._answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        self.requests.append(({k.decode(): v.decode() for k, v in scope["headers"]}, body))
        if self.kind == "stt" and b"true" not in body:
            await self._json(send, {"text": "hello house"})
            return
        kind = "text/event-stream" if self.kind == "stt" else "audio/wav"
        await self._start(send, kind)
        for piece in _pieces(self.kind):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            await asyncio.sleep(self.wait)
            if self.held is not None:
                await asyncio.to_thread(self.held.wait, 60)
            if self.breaks:
                receive.__self__.transport.abort()  # type: ignore[attr-defined]
                return
        await send({"type": "http.response.body", "body": b""})

    async def _json(self, send: Send, body: Any) -> None:
        await self._start(send, "application/json")
        await send({"type": "http.response.body", "body": json.dumps(body).encode()})

    async def _start(self, send: Send, kind: str) -> None:
        headers = [(b"content-type", kind.encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})


def _pieces(kind: str) -> list[bytes]:
    if kind == "tts":
        return [SOUND[start : start + 1024] for start in range(0, len(SOUND), 1024)]
    events: list[Any] = [
        {"type": "transcript.text.delta", "delta": "hello "},
        {"type": "transcript.text.done", "text": "hello house"},
    ]
    return [f"data: {json.dumps(event)}\n\n".encode() for event in events]
