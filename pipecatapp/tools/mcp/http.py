"""An MCP server at a URL (Streamable HTTP), with bounded responses.

The SDK bounds the events of a stream, but not a response of JSON, and it does not report the status
of a refused request.
"""

import ssl
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

import httpx2
from mcp.client.streamable_http import streamable_http_client

from pipecatapp.tools.mcp.life import MAX_MESSAGE, Life, Streams

CONNECT_SECONDS: Final = 10.0
JSON_TYPE: Final = "application/json"


class TooLarge(httpx2.StreamError):
    """A response of JSON is larger than a message may be."""


class _Bounded(httpx2.AsyncByteStream):
    """The body of a response, which ends with `TooLarge` after `MAX_MESSAGE` bytes."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for part in self._stream:
            size += len(part)
            if size > MAX_MESSAGE:
                raise TooLarge(f"the response has more than {MAX_MESSAGE} bytes")
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Transport(httpx2.AsyncHTTPTransport):
    """Bounds every response that is not a stream of events, and notes how each begins."""

    def __init__(self, life: Life, tls: ssl.SSLContext) -> None:
        super().__init__(verify=tls, trust_env=False)
        self._life = life

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        self._life.heard = time.monotonic()
        self._life.refused = response.status_code if response.status_code >= 400 else 0
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            # Its size after decompression is not known before.
            raise httpx2.DecodingError("its responses are compressed, which was not requested")
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            response.stream = _Bounded(response.stream)
        return response


@asynccontextmanager
async def reached(
    url: str, headers: Mapping[str, str], life: Life, tls: ssl.SSLContext
) -> AsyncIterator[Streams]:
    """A connection to the server while the block runs, as a transport of the SDK.

    Redirects are followed only within the origin of the URL, and environment variables for proxies
    are ignored, so the headers reach no other server. An error of the connection ends it: the
    reason is in `life`.
    """
    timeout = httpx2.Timeout(CONNECT_SECONDS, read=None)
    client = httpx2.AsyncClient(
        headers={**headers, "accept-encoding": "identity"},
        timeout=timeout,
        transport=_Transport(life, tls),
        trust_env=False,
    )
    life.heard = time.monotonic()
    try:
        async with (
            client,
            streamable_http_client(
                url, http_client=client, max_sse_event_size=MAX_MESSAGE
            ) as streams,
        ):
            yield streams
    except* httpx2.HTTPError as errors:
        life.end(failure(errors.exceptions[0]))
        raise
    finally:
        life.ending.set()
        life.over.set()


def failure(error: BaseException) -> str:
    """Return why a server was not reached, without its address or headers."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, httpx2.ConnectTimeout):
        return f"it did not accept a connection within {CONNECT_SECONDS:g} s"
    if isinstance(error, httpx2.ConnectError):
        return f"no connection to its url is possible: {str(error)[:200] or 'refused'}"
    return f"the connection broke: {str(error)[:200] or type(error).__name__}"


def refusal(status: int) -> str:
    """Return what the HTTP status of a refused request means for the owner of the entry."""
    if status in (401, 403):
        return f"it refused the key (HTTP {status}): check the `headers` of its entry"
    if status == 404:
        return "its url is not known there (HTTP 404): check the `url` of its entry"
    return f"it answered HTTP {status}"
