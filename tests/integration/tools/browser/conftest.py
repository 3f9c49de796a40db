"""A real browser, a site on loopback that it may open, and one that it may not."""

import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.tools.browser.session import Browsers
from pipecatapp.tools.files.write import write
from pipecatapp.workflow import Context

Page = str | bytes | Callable[[BaseHTTPRequestHandler], None]


@dataclass
class Site:
    """Pages by their path, and the requests that came for them."""

    pages: dict[str, Page] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    host: str = ""

    def page(self, path: str, page: Page) -> str:
        """Serve a page; returns its address."""
        self.pages[path] = page
        return f"http://{self.host}{path}"

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        path = handler.path.partition("?")[0]
        self.requests.append(f"{handler.command} {handler.path}")
        page = self.pages.get(path, "<title>Other</title><p>Another page.</p>")
        if callable(page):
            page(handler)
            return
        body = page.encode() if isinstance(page, str) else page
        handler.send_response(200)
        handler.send_header("content-type", "text/html; charset=utf-8")
        handler.send_header("content-length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)


@contextmanager
def hosted() -> Iterator[Site]:
    """Serve a site in threads."""
    site = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            try:
                site.answer(self)
            except OSError:  # the browser has gone, as tests of limits expect
                self.close_connection = True

        do_POST = do_GET

        def log_message(self, format: str, *args: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    site.host = f"127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def redirect(to: str) -> Page:
    """A page that redirects."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(302)
        handler.send_header("location", to)
        handler.send_header("content-length", "0")
        handler.end_headers()

    return answer


def sent(kind: str, body: bytes) -> Page:
    """A file of a content type."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("content-type", kind)
        handler.send_header("content-length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


@dataclass
class Visit:
    """Calls of the tools in one run."""

    ctx: Context
    site: Site

    async def call(self, tool: str, **given: Any) -> dict[str, Any]:
        return await TOOLS[f"browser.{tool}"].check(self.ctx, given)

    async def open(self, address: str) -> dict[str, Any]:
        return await self.call("open", address=address, hosts=[self.site.host])

    async def show(self, html: str, path: str = "/") -> dict[str, Any]:
        """Open a page with this content."""
        return await self.open(self.site.page(path, html))

    async def text(self, **given: Any) -> str:
        return str((await self.call("read", **given))["text"])


@pytest.fixture(scope="package")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="package")
def _hosts() -> Iterator[tuple[Site, Site]]:
    with hosted() as site, hosted() as secret:
        yield site, secret


@pytest.fixture(scope="package")
async def browsers(_hosts: tuple[Site, Site]) -> AsyncIterator[Browsers]:
    """One browser for the folder; it may open the first site."""
    browsers = Browsers([_hosts[0].host, f"localhost:{_hosts[0].host.partition(':')[2]}"])
    yield browsers
    await browsers.close()


@pytest.fixture
def site(_hosts: tuple[Site, Site]) -> Site:
    """The site that the service permits."""
    return _fresh(_hosts[0])


@pytest.fixture
def secret(_hosts: tuple[Site, Site]) -> Site:
    """A site of the home that nothing permits."""
    return _fresh(_hosts[1])


def _fresh(site: Site) -> Site:
    site.pages.clear()
    site.requests.clear()
    return site


@pytest.fixture
async def visit(
    browsers: Browsers, site: Site, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Visit]:
    """A run with a workspace and the browser; its session ends with the test."""
    run = request.node.name

    async def inner(tool: str, given: Any, *, at: str, say: Any) -> dict[str, Any]:
        assert tool == write.name
        return await write.check(ctx, given)

    ctx = Context(run=run, workspace=tmp_path, services={Browsers: browsers}, inner=inner)
    yield Visit(ctx, site)
    await browsers.forget(run)
