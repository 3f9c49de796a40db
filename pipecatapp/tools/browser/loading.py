"""Loading of a page, with its limits of time and size."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import BaseModel, Field

from pipecatapp.tools.browser.page_address import end_point
from pipecatapp.tools.browser.proxy import LARGEST
from pipecatapp.tools.browser.session import Session, sentence
from pipecatapp.tools.browser.snapshot import quiet
from pipecatapp.workflow import ToolFailed

if TYPE_CHECKING:
    from playwright.async_api import Response

SECONDS: Final = 10.0
"""Longest time of one page load."""
SETTLE: Final = 4.0
"""Seconds that scripts of a loaded page get to finish their work."""
LEAST: Final = 0.2
SHOWN: Final = ("text/", "application/xhtml", "application/xml", "application/json", "image/")
"""Content types that are a page; others are downloads or need a viewer."""
MEGABYTES: Final = LARGEST // 1024 // 1024

Cut = Literal["", "time", "size"]


class Page(BaseModel):
    """The open page."""

    address: str = Field(description="Its address, after all redirects.")
    title: str = Field(description="Its title, as the page gives it: untrusted text.")
    status: int = Field(description="HTTP status; 0 where the page was not loaded by this call.")
    cut: Cut = Field(
        description="`time` or `size` if loading was stopped after 10 s or 2 MB; the page may be"
        " incomplete."
    )
    refused: list[str] = Field(
        description="Hosts whose content was not loaded, each with the reason."
    )
    popups: list[str] = Field(description="Addresses of windows that the page wanted to open.")


Navigate = Callable[[], Awaitable["Response | None"]]


async def load(session: Session, navigate: Navigate) -> Page:
    """Navigate and wait until the page is quiet. Raises `ToolFailed` if no page was loaded.

    `navigate` returns when the page has begun to arrive.
    """
    from playwright.async_api import Error  # noqa: PLC0415 (optional)

    begin(session)
    ends, cut, response = time.monotonic() + SECONDS, "", None
    try:
        async with asyncio.timeout_at(asyncio.get_running_loop().time() + SECONDS):
            response = await navigate()
            await _parsed(session)
    except TimeoutError:
        cut = "time"
    except Error as error:
        if response is None:
            await session.renew()
            raise ToolFailed(_failure(session, error.message)) from error
        cut = "time"
    if cut:
        await stop(session)
    await _check(session, response)
    await quiet(session, max(LEAST, min(SETTLE, ends - time.monotonic())))
    return await seen(session, response.status if response else 0, cut)


async def _state(session: Session) -> None:
    await session.page.wait_for_load_state("domcontentloaded", timeout=0)


async def _parsed(session: Session) -> None:
    """Wait until the document is complete, or is cut off by its size: then it never is."""
    waits: tuple[asyncio.Task[Any], ...] = (
        asyncio.create_task(_state(session)),
        asyncio.create_task(session.proxy.full.wait()),
    )
    try:
        done, _waiting = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in waits:
            one.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
    for one in done:
        one.result()


def begin(session: Session) -> None:
    """Begin an action: its page load is counted from zero."""
    session.proxy.begin()
    for kept in (session.popups, session.stopped, session.running):
        kept.clear()


async def seen(session: Session, status: int = 0, cut: str = "") -> Page:
    """Describe the open page."""
    async with asyncio.timeout(SECONDS):
        title = await session.page.title()
    return Page.model_validate(
        {
            "address": session.page.url,
            "title": title[:300],
            "status": status,
            "cut": "size" if session.proxy.exceeded else cut,
            "refused": list(dict.fromkeys(session.proxy.refused.values())),
            "popups": list(session.popups),
        }
    )


async def stop(session: Session) -> None:
    """Stop loading; the part of the page that has arrived remains."""
    cdp = await session.context.new_cdp_session(session.page)
    await cdp.send("Page.stopLoading")
    await cdp.detach()


async def _check(session: Session, response: "Response | None") -> None:
    """Leave a page that is not to be shown; raises `ToolFailed`."""
    address = session.page.url
    if not address.startswith(("http://", "https://")):
        await session.renew()
        raise ToolFailed(_failure(session, "the server sent no page in time"))
    if not session.proxy.policy.names(*end_point(address)):
        await session.renew()
        host = end_point(address)[0]
        raise ToolFailed(f"The page leads to {host}, which `hosts` of the step does not name.")
    kind = response.headers.get("content-type", "text/html") if response else "text/html"
    if not kind.lower().startswith(SHOWN):
        await session.renew()
        raise ToolFailed(f"{address[:200]} is not a web page ({kind[:100]}): it is not loaded.")


def _failure(session: Session, message: str) -> str:
    """Return why no page was loaded, in a sentence."""
    if session.proxy.exceeded:
        return f"The page has more than {MEGABYTES} MB: it is not loaded."
    if session.proxy.refused:
        return next(iter(session.proxy.refused.values()))
    if "Download is starting" in message:
        return "The address is a file to download, not a page: it is not loaded."
    if "ERR_UNSAFE_REDIRECT" in message or "ERR_UNKNOWN_URL_SCHEME" in message:
        return "The page redirects to an address that is neither https:// nor http://."
    if session.stopped:
        return f"The page wanted to send data ({session.stopped[0]}), which was not permitted."
    return sentence(message)
