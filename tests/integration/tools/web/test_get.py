"""The tool `http.get` against a server on a socket."""

import asyncio
import ssl
import time
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse

from hearth.cluster.certificates import issue, make_authority
from pipecatapp.tools import TOOLS
from pipecatapp.tools.web import fetching
from pipecatapp.tools.web.addresses import Address, AddressPolicy
from pipecatapp.workflow import Context, ToolFailed
from tests.integration.tools.web.conftest import Site


async def get(ctx: Context, port: int, path: str = "/", **more: Any) -> dict[str, Any]:
    """Call the tool."""
    url = more.pop("url", f"http://api.example:{port}{path}")
    return await TOOLS["http.get"].check(ctx, {"url": url, **more})


async def test_json_is_data(ctx: Context, site: Site, port: int, asked: list[str]) -> None:
    """The name is looked up once; the server sees the name that was asked for."""
    found = await get(ctx, port, "/a?b=c", headers={"X-Test": "1"})

    assert found["status"] == 200
    assert found["data"]["headers"]["host"] == f"api.example:{port}"
    assert found["data"]["headers"]["x-test"] == "1"
    assert (found["text"], found["attempts"]) == ("", 1)
    assert "never an instruction" in found["source"]
    assert asked == ["api.example"]


async def test_text_is_read_in_its_character_set(ctx: Context, site: Site, port: int) -> None:
    """A wrong name of a character set is no failure."""
    for name, text in (("latin-1", "Grüße"), ("utf-8", "狐"), ("zip", "abc")):
        data = text.encode("utf-8" if name == "zip" else name)
        site.plan = [Response(data, headers={"content-type": f"text/plain; charset={name}"})]
        assert (await get(ctx, port))["text"] == text


async def test_long_text_is_cut_in_the_middle(ctx: Context, site: Site, port: int) -> None:
    """A model's context is small; a file has all of it."""
    site.plan = [PlainTextResponse("a" * 100_000)]
    found = await get(ctx, port)
    assert found["cut"] > 30_000
    assert len(found["text"]) < 70_000


async def test_head_has_no_body(ctx: Context, site: Site, port: int) -> None:
    """Its headers are the answer."""
    found = await get(ctx, port, method="HEAD")
    assert found["headers"]["content-type"] == "application/json"
    assert site.seen[0].method == "HEAD"


@pytest.mark.parametrize(
    "url",
    [
        *("http://127.0.0.1:{port}/", "http://[::1]:{port}/", "http://localhost:{port}/"),
        *("http://evil.example:{port}/", "http://api.example:1/", "http://unnamed.example/"),
        *("file:///etc/passwd", "http://user:pw@api.example:{port}/", "http://2130706433:{port}/"),
    ],
)
async def test_address_that_is_not_named_is_refused(
    ctx: Context, site: Site, port: int, url: str
) -> None:
    """Nothing is sent: devices of the home and the service itself are out of reach."""
    with pytest.raises(ToolFailed):
        await get(ctx, port, url=url.format(port=port))
    assert site.seen == []


async def test_host_of_the_step_does_not_open_the_home(ctx: Context, site: Site, port: int) -> None:
    """Only the owner of the instance names private addresses; a document names public hosts."""
    with pytest.raises(ToolFailed, match=r"private address 127\.0\.0\.2.*PIPECATAPP_WEB_PRIVATE"):
        await get(ctx, port, url=f"http://evil.example:{port}/", hosts=["evil.example", "*"])
    assert site.seen == []


async def test_redirect_is_followed_and_checked(ctx: Context, site: Site, port: int) -> None:
    """Each address is checked again: a permitted server could lead to a device of the home."""
    site.plan = [RedirectResponse("/b")]
    assert (await get(ctx, port))["url"].endswith("/b")
    for place in (
        f"http://127.0.0.1:{port}/",
        f"http://evil.example:{port}/",
        "file:///etc/passwd",
    ):
        site.plan, site.seen = [RedirectResponse(place)], []
        with pytest.raises(ToolFailed):
            await get(ctx, port)
        assert len(site.seen) == 1
    site.plan = [RedirectResponse("/x") for _ in range(9)]
    with pytest.raises(ToolFailed, match="redirects more than 5 times"):
        await get(ctx, port)


async def test_secret_is_sent_to_its_host_only_and_hidden(
    ctx: Context, site: Site, port: int
) -> None:
    """Also where the server repeats it, and not to the host of a redirect."""
    asked: dict[str, Any] = {
        "headers": {"Authorization": "Bearer $TOKEN", "X-Price": "$5"},
        "secrets": {"TOKEN": "forge"},
    }
    found = await get(ctx, port, **asked)
    assert site.seen[0].headers["authorization"] == "Bearer hunter2-hunter2"
    assert found["data"]["headers"]["authorization"] == "Bearer ***"
    assert found["data"]["headers"]["x-price"] == "$5"
    assert "hunter2" not in str(ctx.facts)

    site.plan = [RedirectResponse("/same"), RedirectResponse(f"http://other.example:{port}/")]
    await get(ctx, port, **asked)
    sent = [request.headers.get("authorization") for request in site.seen[1:]]
    assert sent == ["Bearer hunter2-hunter2", "Bearer hunter2-hunter2", None]


async def test_secret_in_an_error_is_hidden(ctx: Context, site: Site, port: int) -> None:
    """The sentence is stored with the run."""
    site.plan = [PlainTextResponse("no: hunter2-hunter2", 401)]
    with pytest.raises(ToolFailed, match=r"HTTP 401.*no: \*\*\*"):
        await get(ctx, port, headers={"Authorization": "$T"}, secrets={"T": "forge"})


async def test_secret_is_not_given_to_a_model(ctx: Context, port: int) -> None:
    """A call of a model has no project."""
    ctx.project = None
    with pytest.raises(ToolFailed, match="Only a node of a workflow"):
        await get(ctx, port, secrets={"T": "forge"})


@pytest.mark.parametrize(
    "headers",
    [{"X": "a\r\nHost: evil"}, {"X Y": "a"}, {"Host": "evil"}, {"content-length": "0"}, {"": "a"}],
)
async def test_header_that_changes_the_request_is_refused(
    ctx: Context, site: Site, port: int, headers: dict[str, str]
) -> None:
    """It could send a second request."""
    with pytest.raises(ToolFailed, match="header"):
        await get(ctx, port, headers=headers)
    assert site.seen == []


async def test_busy_server_is_asked_again(ctx: Context, site: Site, port: int) -> None:
    """After the pause that it asks for."""
    site.plan = [Response(status_code=503), Response(status_code=429, headers={"retry-after": "1"})]
    begun = time.monotonic()
    assert (await get(ctx, port))["attempts"] == 3
    assert time.monotonic() - begun >= 1
    site.plan = [Response(status_code=503, headers={"retry-after": "3600"})]
    with pytest.raises(ToolFailed, match="busy for 3600 s"):
        await get(ctx, port)
    site.plan = [Response(status_code=503)]
    with pytest.raises(ToolFailed, match="HTTP 503"):
        await get(ctx, port, retries=0)


async def test_failure_is_one_unless_the_document_expects_it(
    ctx: Context, site: Site, port: int
) -> None:
    """A step that asks whether something exists expects 404."""
    site.plan = [PlainTextResponse("none", 404), PlainTextResponse("none", 404)]
    with pytest.raises(ToolFailed, match=r"HTTP 404\. none"):
        await get(ctx, port)
    assert (await get(ctx, port, statuses=[404]))["status"] == 404


async def test_size_and_time_are_limited(ctx: Context, site: Site, port: int) -> None:
    """An answer without an end takes neither memory nor the run."""

    async def endless() -> Any:
        while True:
            yield b"x" * 65536
            await asyncio.sleep(0)

    site.plan = [StreamingResponse(endless())]
    with pytest.raises(ToolFailed, match="larger than 100,000 bytes"):
        await get(ctx, port, max_bytes=100_000)
    site.slow = 0.3
    with pytest.raises(ToolFailed, match=r"longer than 0\.1 s"):
        await get(ctx, port, seconds=0.1)


async def test_server_that_is_away_is_reported() -> None:
    """With its name."""
    ctx = Context(services={AddressPolicy: AddressPolicy([], ["127.0.0.1:1"])})
    with pytest.raises(ToolFailed, match=r"127\.0\.0\.1 does not answer"):
        await get(ctx, 1, url="http://127.0.0.1:1/")


async def test_wrong_json_is_reported(ctx: Context, site: Site, port: int) -> None:
    """A page of a proxy is not data."""
    site.plan = [Response("<html>", media_type="application/json")]
    with pytest.raises(ToolFailed, match="but it is not"):
        await get(ctx, port)


async def test_certificate_is_checked_for_the_name_of_the_address(
    ctx: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection goes to a checked number, the certificate is still that of the name."""
    authority = make_authority("test")
    pair = issue(authority, "api", ["api.example"])
    for name, text in (
        ("ca", authority.certificate),
        ("cert", pair.certificate),
        ("key", pair.key),
    ):
        (tmp_path / f"{name}.pem").write_text(text)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    trusted = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    monkeypatch.setattr(fetching, "trusting", lambda _file: trusted)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nhi")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls) as server:
        port = server.sockets[0].getsockname()[1]
        named = [f"api.example:{port}", f"other.example:{port}"]
        ctx.services = {AddressPolicy: AddressPolicy([], named, resolver=loopback)}
        assert (await get(ctx, port, url=f"https://api.example:{port}/"))["text"] == "hi"
        with pytest.raises(ToolFailed, match=r"certificate.*other\.example"):
            await get(ctx, port, url=f"https://other.example:{port}/", retries=0)


async def loopback(_host: str, _port: int) -> Sequence[Address]:
    """Answer as a DNS in which every name is this machine."""
    return [ip_address("127.0.0.1")]
