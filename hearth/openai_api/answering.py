"""The side of a scripted model server that sends: whole, as events, or broken off."""

import asyncio
import json
import socket
import struct
from collections.abc import Coroutine
from typing import Any

from starlette.types import Receive, Send

from hearth.openai_api.sse import sse_event


class Answering:
    """The caller's connection through ASGI and uvicorn."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive, self._send = receive, send
        self._started = False

    async def read_json(self) -> Any:
        data, more = b"", True
        while more:
            message = await self._receive()
            data, more = data + message.get("body", b""), message.get("more_body", False)
        return json.loads(data or b"{}")

    async def unless_gone(self, work: Coroutine[Any, Any, None], *, stops: bool) -> bool:
        """Do the work; when the caller hangs up first and it `stops`, drop it and return False."""
        task, gone = asyncio.ensure_future(work), asyncio.ensure_future(self._hang_up())
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if not task.done() and stops:
            task.cancel()
        await asyncio.wait((task,))
        gone.cancel()
        if task.cancelled():
            return False
        task.result()
        return True

    async def whole(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        head = [(name.encode(), value.encode()) for name, value in headers.items()]
        head.append((b"content-length", b"%d" % len(body)))
        await self._send({"type": "http.response.start", "status": status, "headers": head})
        await self._send({"type": "http.response.body", "body": body})

    async def json(self, body: Any, status: int = 200) -> None:
        data = json.dumps(body).encode()
        await self.whole(status, data, {"content-type": "application/json; charset=utf-8"})

    async def error(self, status: int, message: str, kind: str) -> None:
        await self.json({"error": {"code": status, "message": message, "type": kind}}, status)

    async def event(self, data: Any) -> None:
        if not self._started:
            head = [(b"content-type", b"text/event-stream")]
            await self._send({"type": "http.response.start", "status": 200, "headers": head})
            self._started = True
        await self._send({"type": "http.response.body", "body": sse_event(data), "more_body": True})

    async def end(self) -> None:
        await self._send({"type": "http.response.body", "body": b""})

    async def fail(self, data: Any, *, stream: bool | None) -> None:
        """Send data that is not a valid answer, and end the response normally."""
        if stream:
            await self.event(data)
            await self.end()
        elif isinstance(data, str):
            await self.whole(200, data.encode(), {"content-type": "application/json"})
        else:
            await self.json(data, 500)

    async def go_on(self, *, stream: bool | None, lines: bool) -> None:
        """Send words until the caller hangs up; without `lines`, all on one."""
        if stream:
            word = b'data: {"choices":[]}\n\n' if lines else b"x" * 65536
            head = b"" if lines else b"data: "
            await self.event({"choices": []})
        else:
            await self.begin_whole(None)
            head, word = b'"', b"x" * 1024
        await self._send({"type": "http.response.body", "body": head, "more_body": True})
        while True:
            await self._send({"type": "http.response.body", "body": word, "more_body": True})
            await asyncio.sleep(0.001)

    async def half_close(self, *, begun: bool | None) -> None:
        """Close the sending side of the connection only."""
        if not begun:
            await self.begin_whole()
        self._transport.write_eof()

    async def begin_whole(self, length: int | None = 1000) -> None:
        """The head and the first bytes of an answer that is not streamed."""
        head = [(b"content-type", b"application/json")]
        if length is not None:
            head.append((b"content-length", b"%d" % length))
        await self._send({"type": "http.response.start", "status": 200, "headers": head})
        body = b'{"object": "chat.completion", "choices": ['
        await self._send({"type": "http.response.body", "body": body, "more_body": True})

    async def cut(self, *, reset: bool) -> None:
        """Close the connection during the answer, with a TCP reset if `reset`.

        ASGI does not support this, so the transport is taken from uvicorn's request.
        """
        transport = self._transport
        if reset:
            sock = transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            transport.abort()
        else:
            transport.close()
        await self._hang_up()

    @property
    def _transport(self) -> Any:
        found = getattr(getattr(self._receive, "__self__", None), "transport", None)
        if found is None:
            raise RuntimeError("Only a uvicorn server can break a connection.")
        return found

    async def _hang_up(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
