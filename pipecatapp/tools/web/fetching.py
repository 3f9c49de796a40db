"""HTTP requests to permitted hosts, with limits.

The address of each request and of each redirect is checked, and the connection goes to the checked
address: the certificate and the header `Host` are still those of the name.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import Final

import httpx2

from hearth.service.settings import trusting
from pipecatapp.tools.web.addresses import AddressPolicy, Target
from pipecatapp.workflow import ToolFailed

REDIRECTS: Final = 5
FOLLOWED: Final = frozenset((301, 302, 303, 307, 308))
AGAIN: Final = frozenset((429, 502, 503, 504))
PAUSE: Final = 0.5
"""Seconds before the first repetition, twice as many before each further one."""
LONGEST_PAUSE: Final = 30.0
"""Seconds that `Retry-After` may ask for."""
CONNECT_SECONDS: Final = 10.0
FORBIDDEN: Final = frozenset(
    ("host", "connection", "content-length", "transfer-encoding", "te", "trailer", "upgrade")
)
"""Headers that frame a request: setting them could make two requests of one."""
SAFE: Final = frozenset(("GET", "HEAD"))


@dataclass(frozen=True)
class Sent:
    """A request. `secret` are headers with values of secrets, which no other host receives."""

    method: str
    url: str
    headers: Mapping[str, str]
    secret: Mapping[str, str]
    body: bytes | None = None
    seconds: float = 30.0
    """For everything, with redirects and repetitions."""
    largest: int = 2 * 1024 * 1024
    """Bytes of the body of the answer."""
    retries: int = 0


@dataclass(frozen=True)
class Answer:
    """An answer; `url` is where it came from, after redirects."""

    url: str
    status: int
    headers: httpx2.Headers
    body: bytes
    attempts: int = 1


async def fetch(sent: Sent, policy: AddressPolicy) -> Answer:
    """Send a request, and repeat it where it may be repeated and the server is busy or away.

    Raises `ToolFailed`, and `AddressRefused` for an address that is not permitted.
    """
    for name in (*sent.headers, *sent.secret):
        if name.lower() in FORBIDDEN:
            raise ToolFailed(f"The header {name!r} cannot be set: it frames the request.")
    try:
        async with asyncio.timeout(sent.seconds):
            return await _repeated(sent, policy)
    except TimeoutError as error:
        raise ToolFailed(
            f"{_host(sent.url)} took longer than {sent.seconds:g} s: set a larger `seconds`."
        ) from error


async def _repeated(sent: Sent, policy: AddressPolicy) -> Answer:
    attempt = 1
    while True:
        last = attempt > sent.retries
        try:
            answer = await _followed(sent, policy)
        except httpx2.TransportError as error:
            if last:
                reason = str(error) or type(error).__name__
                raise ToolFailed(f"{_host(sent.url)} does not answer: {reason}.") from error
            pause = PAUSE * 2 ** (attempt - 1)
        except (httpx2.InvalidURL, httpx2.DecodingError, httpx2.ProtocolError, ValueError) as error:
            raise ToolFailed(f"{_host(sent.url)}: the request is not valid: {error}.") from error
        else:
            if last or answer.status not in AGAIN:
                return replace(answer, attempts=attempt)
            pause = max(PAUSE * 2 ** (attempt - 1), _retry_after(answer.headers))
        if pause > LONGEST_PAUSE:
            raise ToolFailed(f"{_host(sent.url)} is busy for {pause:.0f} s: try again later.")
        await asyncio.sleep(pause)
        attempt += 1


async def _followed(sent: Sent, policy: AddressPolicy) -> Answer:
    """Send a request; follow redirects of GET and HEAD, each after a new check of its address."""
    url, secret = sent.url, sent.secret
    for _ in range(REDIRECTS + 1):
        target = await policy.check(url)
        async with _opened(sent, target, secret) as answer:
            place = answer.headers.get("location", "")
            if answer.status_code in FOLLOWED and place and sent.method in SAFE:
                following = target.url.join(place)
                secret = secret if _origin(following) == _origin(target.url) else {}
                url = str(following.copy_with(fragment=None))
                continue
            body = await _body(answer, sent)
            return Answer(str(target.url), answer.status_code, answer.headers, body)
    raise ToolFailed(f"{_host(sent.url)} redirects more than {REDIRECTS} times.")


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


@asynccontextmanager
async def _opened(
    sent: Sent, target: Target, secret: Mapping[str, str]
) -> AsyncIterator[httpx2.Response]:
    """Send a request to the first address of its target that accepts a connection."""
    timeout = httpx2.Timeout(sent.seconds, connect=CONNECT_SECONDS)
    tls = trusting(None)
    async with httpx2.AsyncClient(timeout=timeout, verify=tls, trust_env=False) as client:
        for index, address in enumerate(target.addresses):
            request = client.build_request(
                sent.method,
                target.url.copy_with(host=str(address)),
                headers={
                    "user-agent": "Hearth",
                    "accept-encoding": "identity",
                    **sent.headers,
                    **secret,
                    "host": target.url.netloc.decode("ascii"),
                },
                content=sent.body,
                extensions={"sni_hostname": target.host},
            )
            try:
                answer = await client.send(request, stream=True)
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                if index + 1 == len(target.addresses):
                    raise
                continue
            try:
                yield answer
            finally:
                await answer.aclose()
            return


async def _body(answer: httpx2.Response, sent: Sent) -> bytes:
    """Read the body; raises `ToolFailed` for more than the limit, before it is all there."""
    if sent.method == "HEAD":
        return b""
    found = bytearray()
    async for piece in answer.aiter_bytes():
        found += piece
        if len(found) > sent.largest:
            raise ToolFailed(
                f"The answer is larger than {sent.largest:,} bytes: set a larger `max_bytes`."
            )
    return bytes(found)


def _retry_after(headers: httpx2.Headers) -> float:
    """Return the seconds that a server asks to wait; 0 if it does not say it, or not validly.

    Source: RFC 9110, section 10.2.3.
    """
    text = headers.get("retry-after", "")
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except ValueError:
        return 0.0


def _host(url: str) -> str:
    """Return the host for a message: the rest of an address may contain secrets."""
    try:
        return httpx2.URL(url).host or "The server"
    except httpx2.InvalidURL:
        return "The server"
