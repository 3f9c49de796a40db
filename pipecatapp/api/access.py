"""Authentication: a key in the header, or the session cookie of our page."""

import asyncio
import hmac
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Annotated, Final

from fastapi import Depends, Request
from starlette.requests import HTTPConnection

from hearth.service.http_errors import BearerKeys, Refused, sent_key, wrong_key

COOKIE: Final = "hearth_session"
SESSION_SECONDS: Final = 30 * 24 * 3600
SLOWEST_REFUSAL: Final = 2.0
FORGIVEN_AFTER: Final = 60.0


class Access:
    """The keys of this service and the sessions signed with the first of them.

    A session is `v1.<expiry>.<nonce>.<signature>`: nothing is stored, and a new key ends them all.
    `public_origin` is the address of a proxy before this service, such as `https://home.lan`.
    """

    def __init__(
        self,
        keys: Sequence[str],
        *,
        public_origin: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._keys = BearerKeys(keys)
        self._secret = hmac.digest(keys[0].encode(), b"hearth session v1", "sha256")
        self._public_origin, self._clock = public_origin, clock
        self._wrong: list[float] = []

    def opens(self, key: bytes) -> bool:
        """Return whether `key` is one of ours."""
        return self._keys.opens(key)

    def derived(self, purpose: bytes) -> bytes:
        """Return 32 bytes for a purpose; they change with the first key."""
        return hmac.digest(self._secret, purpose, "sha256")

    def new_session(self) -> str:
        claim = f"v1.{int(self._clock()) + SESSION_SECONDS}.{secrets.token_urlsafe(12)}"
        return f"{claim}.{self._sign(claim)}"

    def knows_session(self, cookie: str) -> bool:
        claim, _, signature = cookie.rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._sign(claim).encode()):
            return False
        return int(claim.split(".")[1]) > self._clock()

    def own_page(self, request: HTTPConnection) -> bool:
        """Return whether a request comes from our own page; programs send no origin and pass."""
        if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return False
        origin = request.headers.get("origin")
        if origin is None or origin == self._public_origin:
            return True
        scheme, _, host = origin.partition("://")
        return bool(scheme and host) and host == request.headers.get("host")

    async def punish_wrong_key(self) -> None:
        """Delay the answers to wrong keys increasingly; requests with a valid key are not
        delayed."""
        now = self._clock()
        recent = [at for at in self._wrong if now - at < FORGIVEN_AFTER]
        self._wrong = [*recent[-10:], now]
        await asyncio.sleep(min(SLOWEST_REFUSAL, 0.05 * 2 ** (len(self._wrong) - 1)))

    def _sign(self, claim: str) -> str:
        return hmac.new(self._secret, claim.encode(), "sha256").hexdigest()


def cookie_name(request: HTTPConnection) -> str:
    """The name of our cookie at the address that the browser uses.

    Browsers share cookies between the ports of a host, and each instance has a separate session.
    """
    scheme = request.url.scheme.replace("ws", "http")
    return f"{COOKIE}_{request.url.port or scheme}"


def knows(access: Access, connection: HTTPConnection) -> bool:
    """Return whether a WebSocket is opened with a key, or by our own page after a login."""
    key = sent_key(connection)
    if key is not None:
        return access.opens(key)
    cookie = connection.cookies.get(cookie_name(connection), "")
    return access.knows_session(cookie) and access.own_page(connection)


def access_of(request: Request) -> Access:
    access = request.app.state.access
    assert isinstance(access, Access)
    return access


def known_caller(request: Request, access: Annotated[Access, Depends(access_of)]) -> None:
    """Let the request pass, or raise `Refused`: 401 without a key, 403 from another's page."""
    key = sent_key(request)
    if key is not None:
        if access.opens(key):
            return
        raise unknown_key()
    if not access.knows_session(request.cookies.get(cookie_name(request), "")):
        raise unknown_key()
    own_page_only(request, access)


def own_page_only(request: Request, access: Annotated[Access, Depends(access_of)]) -> None:
    """Refuse requests that another site's page sends through the browser of a logged-in user."""
    if not access.own_page(request):
        raise Refused(403, "foreign_origin", "The request was sent by a page of another origin.")


def unknown_key() -> Refused:
    return wrong_key("`hearth status` shows the file with this instance's key.")
