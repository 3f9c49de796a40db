"""The tool `browser.open`: its limits, and the addresses that it refuses, in a real browser."""

import asyncio
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler

import psutil
import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.tools.browser import loading, process, session
from pipecatapp.tools.browser.session import Browsers
from pipecatapp.workflow import Context, ToolFailed
from tests.integration.tools.browser.conftest import Site, Visit, redirect, sent

OPEN = TOOLS["browser.open"]
MEGABYTE = 1024 * 1024


@pytest.mark.proves("001-18")
async def test_private_address_needs_the_document_and_the_service(
    visit: Visit, secret: Site
) -> None:
    """The devices of a home trust their network: a page or a model must not reach them."""
    address = f"http://{visit.site.host}/"
    with pytest.raises(ToolFailed, match=r"private address.*PIPECATAPP_WEB_PRIVATE"):
        await OPEN.check(visit.ctx, {"address": address})
    with pytest.raises(ToolFailed, match="private address"):
        await visit.call("open", address=f"http://{secret.host}/", hosts=[secret.host])
    assert (visit.site.requests, secret.requests) == ([], [])

    opened = await visit.call("open", address=address, hosts=[visit.site.host])

    assert (opened["status"], opened["title"], opened["cut"]) == (200, "Other", "")


@pytest.mark.proves("001-18")
async def test_name_is_decided_by_the_address_that_it_has(visit: Visit, secret: Site) -> None:
    """Anybody can let a public name point to 127.0.0.1."""
    port = secret.host.partition(":")[2]
    for name in ("localhost", "LOCALHOST.", "0x7f.1", "2130706433", "[::ffff:127.0.0.1]"):
        with pytest.raises(ToolFailed, match="private address"):
            await visit.call("open", address=f"http://{name}:{port}/")
    assert secret.requests == []

    own = visit.site.host.partition(":")[2]
    await visit.call("open", address=f"http://localhost:{own}/", hosts=[f"localhost:{own}"])


@pytest.mark.parametrize(
    "address",
    ["file:///etc/passwd", "data:text/html,x", "chrome://version", "view-source:http://x.org",
     "javascript:alert(1)", "about:blank", "ftp://x.org/", "blob:http://x.org/1"],
)  # fmt: skip
async def test_address_of_another_scheme_is_refused(visit: Visit, address: str) -> None:
    """A model asks for any address that a page suggests."""
    with pytest.raises(ToolFailed, match="must begin with https:// or http://"):
        await visit.call("open", address=address)


@pytest.mark.proves("001-18")
async def test_redirects_do_not_lead_out(visit: Visit, secret: Site) -> None:
    """A check of the first address alone is worth nothing."""
    to_secret = visit.site.page("/secret", redirect(f"http://{secret.host}/x"))
    with pytest.raises(ToolFailed, match="private address"):
        await visit.open(to_secret)
    for target in ("file:///etc/passwd", "data:text/html,hello"):
        with pytest.raises(ToolFailed, match="neither https:// nor http://"):
            await visit.open(visit.site.page("/file", redirect(target)))
    by_script = f"<script>location = 'http://{secret.host}/y'</script>"
    await _ignoring_failure(visit, visit.site.page("/script", by_script))

    assert secret.requests == []


async def _ignoring_failure(visit: Visit, address: str) -> None:
    """Open a page that may lead nowhere; what matters is who was asked."""
    try:
        await visit.open(address)
    except ToolFailed:
        return


@pytest.mark.proves("001-18")
async def test_page_reaches_no_private_address_in_any_way(visit: Visit, secret: Site) -> None:
    """Frames, pictures, scripts, sockets, workers and windows are requests, too."""
    private = secret.host
    page = f"""<title>Trap</title><p>Nothing here.</p><img src="http://{private}/img">
    <iframe src="http://{private}/frame"></iframe><iframe src="file:///etc/passwd"></iframe>
    <link rel=stylesheet href="http://{private}/css"><link rel=prefetch href="http://{private}/p">
    <script src="http://{private}/js"></script><script>
      fetch("http://{private}/fetch", {{mode: "no-cors"}}).catch(() => 0);
      navigator.sendBeacon("http://{private}/beacon", "x");
      new WebSocket("ws://{private}/socket");
      new EventSource("http://{private}/events");
      window.open("http://{private}/window"); window.open("file:///etc/passwd");
      navigator.serviceWorker?.register("/worker.js").catch(() => 0);
      new Worker(URL.createObjectURL(new Blob(["fetch('http://{private}/worker')"])));
      const peer = new RTCPeerConnection({{iceServers: [{{urls: "stun:{private}"}}]}});
      peer.createDataChannel("x"); peer.createOffer().then((o) => peer.setLocalDescription(o));
    </script>"""

    opened = await visit.show(page)
    text = await visit.text()

    assert secret.requests == []
    assert "root:" not in text
    assert any("private address" in reason for reason in opened["refused"])
    assert "/worker.js" not in " ".join(visit.site.requests)


async def test_direct_connection_is_not_possible(visit: Visit) -> None:
    """The proxy decides on addresses, so there must be no way around it, such as WebRTC's UDP."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stun:
        stun.bind(("127.0.0.1", 0))
        stun.settimeout(0)
        port = stun.getsockname()[1]
        await visit.show(f"""<script>
          const peer = new RTCPeerConnection({{iceServers: [{{urls: "stun:127.0.0.1:{port}"}}]}});
          peer.createDataChannel("x"); peer.createOffer().then((o) => peer.setLocalDescription(o));
          setTimeout(() => document.title = "tried", 1000);
        </script>""")
        with pytest.raises(BlockingIOError):
            stun.recv(100)


async def test_popup_is_closed_and_named(visit: Visit) -> None:
    """A second window would be one that nobody reads; its address may be what the page is for."""
    await visit.show("<script>window.open('/more')</script><p>First.")

    opened = await visit.show("<script>window.open('/more?2')</script><p>First.")

    assert opened["popups"] == [f"http://{visit.site.host}/more?2"]
    assert len(visit.ctx.service(Browsers).pages(visit.ctx.run)) == 1


@pytest.mark.proves("001-18")
async def test_download_is_no_page(visit: Visit) -> None:
    """A page must not put files on the machine."""
    archive = sent("application/zip", b"PK" + bytes(1000))
    with pytest.raises(ToolFailed, match=r"file to download|not a web page"):
        await visit.open(visit.site.page("/file.zip", archive))
    with pytest.raises(ToolFailed, match=r"not a web page|file to download"):
        await visit.open(visit.site.page("/file.pdf", sent("application/pdf", b"%PDF-1.4")))

    await visit.show("<a href=/file.zip download>Get</a>")
    with pytest.raises(ToolFailed, match="no link"):
        await visit.call("act", action="click", role="link", name="Got")
    visit.site.page("/file.zip", archive)
    await visit.call("act", action="click", role="link", name="Get")

    assert "Get" in await visit.text()


def endless(handler: BaseHTTPRequestHandler) -> None:
    """Send lines until the browser goes."""
    handler.send_response(200)
    handler.send_header("content-type", "text/html")
    handler.end_headers()
    ends = time.monotonic() + 30
    while time.monotonic() < ends:
        handler.wfile.write(b"<p>Another line.</p>\n")
        handler.wfile.flush()
        threading.Event().wait(0.02)


@pytest.mark.proves("001-18")
async def test_endless_page_is_cut_when_its_time_is_over(
    visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run must not wait for a page for ever; what has arrived can be read."""
    assert loading.SECONDS == 10
    monkeypatch.setattr(loading, "SECONDS", 2.0)
    begin = time.monotonic()

    opened = await visit.open(visit.site.page("/endless", endless))

    assert 2 <= time.monotonic() - begin < 10
    assert opened["cut"] == "time"
    assert "Another line." in await visit.text()


@pytest.mark.proves("001-18")
async def test_page_of_many_megabytes_is_cut_after_two(visit: Visit) -> None:
    """A page must not fill memory, or a connection that is paid for."""
    line = b"<p>" + b"x" * 1000 + b"</p>\n"
    received: list[int] = []

    def large(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("content-type", "text/html")
        handler.send_header("content-length", str(40 * MEGABYTE))
        handler.end_headers()
        try:
            for _ in range(40 * MEGABYTE // len(line)):
                handler.wfile.write(line)
                received.append(len(line))
        except OSError:
            handler.close_connection = True

    opened = await visit.open(visit.site.page("/large", large))

    assert opened["cut"] == "size"
    assert sum(received) < 20 * MEGABYTE  # the buffers of the sockets hold more than 2 MB
    assert "xxx" in await visit.text()


async def test_runs_share_neither_cookies_nor_storage(visit: Visit, browsers: Browsers) -> None:
    """What one run is signed in to is not another's."""
    page = "<script>document.title = document.cookie; document.cookie = 'signed=in'</script>"
    await visit.show(page)
    other = Visit(Context(run="other", services=visit.ctx.services), visit.site)

    again, fresh = await visit.show(page), await other.show(page)
    await browsers.forget("other")

    assert (again["title"], fresh["title"]) == ("signed=in", "")


async def test_site_gets_no_permission(visit: Visit) -> None:
    """Nobody is there to be asked."""
    opened = await visit.show("""<script>
      navigator.geolocation.getCurrentPosition(() => document.title += "place");
      navigator.mediaDevices?.getUserMedia({audio: true}).then(() => document.title += "sound");
      Notification.requestPermission().then((one) => document.title += one);
    </script>""")

    assert opened["title"] in ("", "denied", "default")


async def test_host_that_the_document_does_not_name_is_not_opened(visit: Visit) -> None:
    """The author of a document decides where its words may go."""
    with pytest.raises(ToolFailed, match=r"does not name example\.org"):
        await visit.call("open", address="http://example.org/", hosts=["example.com"])
    with pytest.raises(ToolFailed, match="is not a valid host"):
        await visit.call("open", address="http://example.org/", hosts=["http://x/"])


async def test_session_ends_with_its_run_and_the_browser_when_it_is_idle(site: Site) -> None:
    """A browser that nobody uses holds 300 MB."""
    ended = asyncio.Event()
    browsers = Browsers([site.host], ended=lambda _run: ended.wait(), linger=0)
    try:
        visit = Visit(Context(run="r", services={Browsers: browsers}), site)
        await visit.show("<p>Hello")
        assert browsers.running
        ended.set()
        async with asyncio.timeout(30):
            while browsers.running:  # noqa: ASYNC110 (the end has no event)
                await asyncio.sleep(0.02)
        with pytest.raises(ToolFailed, match="no open page"):
            await visit.text()
    finally:
        await browsers.close()


async def test_browser_that_does_not_respond_is_killed_when_the_service_ends(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that hangs must not keep the service from stopping, nor go on after its run."""
    for module in (process, session):
        monkeypatch.setattr(module, "CLOSE_SECONDS", 0.5)
    browsers = Browsers([site.host])
    visit = Visit(Context(run="r", services={Browsers: browsers}), site)
    others = set(psutil.Process().children(recursive=True))
    await visit.show("<p>Hello")
    ours = set(psutil.Process().children(recursive=True)) - others
    frozen = [one for one in ours if "chrom" in one.name()]
    assert frozen
    for one in frozen:
        one.suspend()
    async with asyncio.timeout(30):
        await browsers.close()
    _gone, left = await asyncio.to_thread(psutil.wait_procs, frozen, 10)
    assert left == []
    assert not browsers.running
