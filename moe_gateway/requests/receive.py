"""Receive: read the body of a request, with its limits of size and time."""

import asyncio
from functools import partial

from starlette.types import Message, Receive

from hearth.service.http_errors import limited
from moe_gateway.errors import Headers, too_large, too_slow
from moe_gateway.http.server import Line


class CallerGone(Exception):
    """The client disconnected before the request was complete, so no response is possible."""


def complete_body(line: Line | None, limit: int) -> bytes | None:
    """Return the body if all of it has arrived with the headers, as small ones do; else None.

    Raises `Refused` (413) for more than `limit` bytes.
    """
    body = None if line is None else line.body()
    if body is not None and len(body) > limit:
        raise too_large(limit)
    return body


async def read_body(headers: Headers, receive: Receive, *, limit: int, seconds: float) -> bytes:
    """Receive a body of at most `limit` bytes within `seconds`.

    Raises `Refused` (408, 413) or `CallerGone`.
    """
    try:
        async with asyncio.timeout(seconds):
            return await _read_chunks(headers, receive, limit)
    except TimeoutError as error:
        raise too_slow(seconds) from error


async def _read_chunks(headers: Headers, receive: Receive, limit: int) -> bytes:
    receive = limited(headers, receive, limit, partial(too_large, limit))
    chunks, more = [], True
    while more:
        message = await receive()
        chunks.append(_body(message))
        more = message.get("more_body", False)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _body(message: Message) -> bytes:
    if message["type"] == "http.disconnect":
        raise CallerGone
    data: bytes = message.get("body", b"")
    return data
