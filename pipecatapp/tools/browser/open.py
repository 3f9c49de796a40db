"""The tool `browser.open`: open a web page."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from pipecatapp.tools.browser.loading import SECONDS, Page, load
from pipecatapp.tools.browser.page_address import end_point, page_address
from pipecatapp.tools.browser.process import NEEDS
from pipecatapp.tools.browser.session import Browsers
from pipecatapp.workflow import BY_AUTHOR, Approve, Context, ToolFailed, tool


def approval(given: Mapping[str, Any]) -> Approve:
    """An address can carry private data to its host, so a person approves the first one, unless
    the document names the hosts."""
    return "never" if given.get("hosts") else "first"


@tool("browser.open", effect="net", version=1, approve=approval, needs=NEEDS)
async def open_page(
    ctx: Context,
    address: Annotated[str, Field(description="Begins with https:// or http://.", min_length=1)],
    hosts: Annotated[
        list[str],
        BY_AUTHOR,
        Field(
            description="Hosts whose pages may be opened in this run from now on:"
            " `example.org`, `*.example.org`, `127.0.0.1:8000`; empty: every public host. A private"
            " host must be named here and in PIPECATAPP_WEB_PRIVATE.",
            max_length=100,
        ),
    ] = [],  # noqa: B006 (pydantic copies defaults)
) -> Page:
    """Open a web page in the headless browser of this run. Read it with browser.read."""
    address, browsers = page_address(address), ctx.service(Browsers)
    policy = browsers.policy(hosts)
    host, port = end_point(address)
    if not policy.names(host, port):
        raise ToolFailed(f"`hosts` of the step does not name {host}: its pages are not opened.")
    async with browsers.opened(ctx.run) as session:
        await session.recover()
        session.proxy.policy, session.guarded = policy, False
        page = session.page
        opened = await load(
            session, lambda: page.goto(address, wait_until="commit", timeout=SECONDS * 1000)
        )
    ctx.record(address=opened.address, status=opened.status)
    return opened
