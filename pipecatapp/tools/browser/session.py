"""The browser of the service, and the isolated session of each run in it."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pipecatapp.tools.browser.page_address import end_point
from pipecatapp.tools.browser.process import CLOSE_SECONDS, SLOTS, Chromium
from pipecatapp.tools.browser.proxy import Proxy
from pipecatapp.tools.web.addresses import AddressPolicy, HostPattern
from pipecatapp.workflow import ToolFailed

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page, Request, Route

    from pipecatapp.tools.browser.snapshot import Snapshot

IDLE: Final = 600.0
"""Seconds without a call after which the session of a run is closed."""
LINGER: Final = 60.0
"""Seconds that the browser stays without a session."""
WIDTH: Final = 1280
HEIGHT: Final = 800
CHANGES_NOTHING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
KEPT: Final = 20
"""Addresses of popups and of stopped requests that are kept."""
ALIVE: Final = 2.0
"""Seconds within which a page must answer before another address is opened."""
RESPONDS: Final = 5.0
"""Seconds that a page may take to answer a question of the browser."""

Ended = Callable[[str], Awaitable[object]]


@dataclass
class Session:
    """Cookies, storage and the page of one run, which no other run sees."""

    slot: int
    proxy: Proxy
    context: "BrowserContext"
    page: "Page"
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    used: float = field(default_factory=time.monotonic)
    snapshot: "Snapshot | None" = None
    reads: int = 0
    popups: list[str] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    """Requests that would have changed something, and were not permitted to."""
    guarded: bool = False
    """Whether requests that may change something are stopped."""
    activity: int = 0
    """Counts the beginnings and ends of requests."""
    renewing: bool = False
    running: set[Any] = field(default_factory=set)
    """Requests that have not ended."""

    @property
    def is_open(self) -> bool:
        """Whether an address was opened and its page is still there."""
        return not self.page.is_closed() and self.page.url.startswith(("http://", "https://"))

    def watch(self) -> None:
        """Follow what the page does."""
        self.context.on("page", self._popup)
        for event in ("request", "requestfinished", "requestfailed"):
            self.context.on(event, self._counted)
        self._watch_page()

    def _watch_page(self) -> None:
        self.page.on("domcontentloaded", lambda _page: setattr(self, "snapshot", None))

    def _counted(self, request: "Request") -> None:
        self.activity += 1
        if request in self.running:
            self.running.discard(request)
        elif request.resource_type not in ("eventsource", "websocket", "media"):
            self.running.add(request)

    async def _popup(self, page: "Page") -> None:
        """Close a second page of the run, and keep its address."""
        if page is self.page or self.renewing:
            return
        with contextlib.suppress(_error()):
            if page.url in ("", "about:blank", ":"):
                await page.wait_for_event("framenavigated", timeout=1000)
        if len(self.popups) < KEPT:
            self.popups.append(page.url[:500])
        with contextlib.suppress(_error()):
            await page.close()

    async def recover(self) -> None:
        """Replace the page if it does not respond: it would block the next one, too."""
        try:
            async with asyncio.timeout(ALIVE):
                await self.page.evaluate("1")
        except (TimeoutError, _error()):
            await self.renew()

    async def renew(self) -> None:
        """Replace a page that failed by an empty one."""
        old, self.renewing = self.page, True
        try:
            self.page = await self.context.new_page()
        finally:
            self.renewing = False
        self._watch_page()
        self.snapshot = None
        self.running.clear()
        async with asyncio.timeout(RESPONDS):
            await old.close()

    async def route(self, route: "Route") -> None:
        """Decide on a request of the page before it is sent. The proxy decides on its address."""
        request = route.request
        with contextlib.suppress(_error()):  # the page may have gone
            if self.guarded and request.method not in CHANGES_NOTHING:
                if len(self.stopped) < KEPT:
                    self.stopped.append(f"{request.method} {request.url[:300]}")
                await route.abort("aborted")
            elif not self._may_show(request):
                await route.abort("addressunreachable")
            else:
                await route.continue_()

    def _may_show(self, request: "Request") -> bool:
        """Whether the document permits a page of this host; other requests are not restricted."""
        if not request.is_navigation_request() or _is_inner(request):
            return True
        return self.proxy.policy.names(*end_point(request.url))

    async def close(self) -> bool:
        """Forget everything of the run. Returns whether the browser did so in time."""
        closed = True
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self.context.close()
        except TimeoutError:
            closed = False
        except _error():  # the browser has ended, and the context with it
            pass
        await self.proxy.close()
        return closed


class Browsers:
    """Starts the browser when a run first needs it, and ends it when it is idle.

    `private` names the private hosts that documents may permit. `ended` returns when a run has
    ended; without it, sessions end by their idle time.
    """

    def __init__(
        self,
        private: Sequence[str] = (),
        *,
        ended: Ended | None = None,
        idle: float = IDLE,
        linger: float = LINGER,
    ) -> None:
        self._policy, self._ended = AddressPolicy(private=private, both=True), ended
        self._idle, self._linger = idle, linger
        self._chromium: Chromium | None = None
        self._starting = asyncio.Lock()
        self._sessions: dict[str, Session] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def running(self) -> bool:
        """Whether there is a browser process."""
        return self._chromium is not None

    def pages(self, run: str) -> list[str]:
        """Return the addresses of the pages that a run has open."""
        session = self._sessions.get(run)
        return [page.url for page in session.context.pages] if session else []

    def policy(self, hosts: Sequence[str]) -> AddressPolicy:
        """Return the policy for the hosts of a document; empty: every public host.

        Raises `ToolFailed`.
        """
        try:
            if any(HostPattern.read(text).host == "*" for text in hosts):
                raise ToolFailed(
                    "'*' is not valid here: leave `hosts` empty to permit every public host. A"
                    " person then approves the first address that a model opens."
                )
            return self._policy.for_hosts(hosts or ["*"])
        except ValueError as error:
            raise ToolFailed(str(error)) from error

    @asynccontextmanager
    async def opened(self, run: str) -> AsyncIterator[Session]:
        """The session of a run, which is made if there is none; one call at a time uses it."""
        async with self._starting:
            session = self._sessions.get(run)
            if session is not None and not self._is_alive(session):
                await self._forget(run)
                session = None
            if session is None:
                session = await self._new(run)
        async with self._using(session):
            yield session

    @asynccontextmanager
    async def current(self, run: str) -> AsyncIterator[Session]:
        """The session of a run with a page; raises `ToolFailed` without one."""
        session = self._sessions.get(run)
        if session is None or not self._is_alive(session) or not session.is_open:
            raise ToolFailed("This run has no open page: open one with browser.open first.")
        async with self._using(session):
            yield session

    @asynccontextmanager
    async def _using(self, session: Session) -> AsyncIterator[None]:
        error = _error()
        async with session.lock:
            session.used = time.monotonic()
            try:
                yield
            except error as failure:
                raise ToolFailed(sentence(failure.message)) from failure
            except TimeoutError as failure:
                raise ToolFailed(
                    "The page does not respond. Open it again or go back."
                ) from failure
            finally:
                session.used = time.monotonic()

    def _is_alive(self, session: Session) -> bool:
        browser = self._chromium.browser if self._chromium else None
        return browser is not None and browser.is_connected() and not session.page.is_closed()

    async def _new(self, run: str) -> Session:
        taken = {session.slot for session in self._sessions.values()}
        free = [slot for slot in range(SLOTS) if slot not in taken]
        if not free:
            raise ToolFailed(f"{SLOTS} runs use the browser already. Try again later.")
        chromium, slot = await self._started(), free[0]
        proxy = Proxy(chromium.socket(slot))
        await proxy.start()
        try:
            session = await _session(chromium, slot, proxy)
        except BaseException:
            await proxy.close()
            raise
        self._sessions[run] = session
        self._background(self._close_idle(run, session))
        if self._ended is not None and run:
            self._background(self._close_ended(run, session))
        return session

    async def _started(self) -> Chromium:
        if self._chromium is not None and not self._chromium.browser.is_connected():
            await self._stop()
        if self._chromium is None:
            self._chromium = await Chromium.start()
        return self._chromium

    def _background(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _close_ended(self, run: str, session: Session) -> None:
        if self._ended is not None:
            await self._ended(run)
        await self._close_session(run, session)

    async def _close_idle(self, run: str, session: Session) -> None:
        while True:
            left = session.used + self._idle - time.monotonic()
            if left <= 0 and not session.lock.locked():
                break
            await asyncio.sleep(max(left, 0.1))
        await self._close_session(run, session)

    async def forget(self, run: str) -> None:
        """Close the session of a run, if it has one."""
        async with self._starting:
            if run in self._sessions:
                await self._forget(run)

    async def _close_session(self, run: str, session: Session) -> None:
        if self._sessions.get(run) is session:
            await self.forget(run)
        await self._close_unused()

    async def _close_unused(self) -> None:
        """End the browser if nobody has used it for a while."""
        if self._sessions:
            return
        chromium = self._chromium
        await asyncio.sleep(self._linger)
        async with self._starting:
            if not self._sessions and chromium is self._chromium:
                await self._stop()

    async def _forget(self, run: str) -> None:
        session = self._sessions.pop(run)
        if not await session.close() and self._chromium is not None:
            # Its page would go on, through the proxy of the next run in this slot.
            self._chromium.kill()

    async def _stop(self) -> None:
        for run in list(self._sessions):
            await self._forget(run)
        chromium, self._chromium = self._chromium, None
        if chromium is not None:
            await chromium.close()

    async def close(self) -> None:
        """End all sessions and the browser; a call that holds it is not waited for."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSE_SECONDS)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._starting.acquire()
        await self._stop()


async def _session(chromium: Chromium, slot: int, proxy: Proxy) -> Session:
    context = await chromium.browser.new_context(
        accept_downloads=False,
        service_workers="block",
        permissions=[],
        viewport={"width": WIDTH, "height": HEIGHT},
        proxy={"server": chromium.proxy_address(slot), "bypass": "<-loopback>"},
    )
    context.set_default_timeout(RESPONDS * 1000)
    session = Session(slot, proxy, context, await context.new_page())
    session.watch()
    await context.route("**/*", session.route)
    return session


def _is_inner(request: "Request") -> bool:
    """Whether a frame inside of a page navigates; the frame of a popup may not be known yet."""
    try:
        return request.frame.parent_frame is not None
    except _error():
        return False


def _error() -> "type[Any]":
    """Return Playwright's error; the package is imported only when a browser runs."""
    from playwright.async_api import Error  # noqa: PLC0415

    return Error


def sentence(message: str) -> str:
    """Return the first line of a message of Playwright as a sentence."""
    line = message.splitlines()[0].removeprefix("Error: ").rstrip(".")
    return f"The browser reports: {line[:300]}."
