"""The proxy of the browser: names are looked up once, and decided by what they lead to."""

import asyncio
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path

import pytest

from pipecatapp.tools.browser.proxy import Proxy
from pipecatapp.tools.web.addresses import Address, AddressPolicy
from tests.integration.tools.browser.conftest import Site


async def _through(proxy: Proxy, socket: Path, host: str) -> bytes:
    """Request a page through the proxy, as the browser does; empty if it does not connect."""
    proxy.begin()
    reader, writer = await asyncio.open_unix_connection(socket)
    writer.write(f"GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return answer


@pytest.mark.proves("001-18")
async def test_answer_of_a_name_server_is_used_once(site: Site, tmp_path: Path) -> None:
    """DNS rebinding: the second answer is another address than the one that was checked."""
    port = site.host.partition(":")[2]
    answers = ["127.0.0.1", "127.0.0.2", "127.0.0.1"]

    async def resolver(_host: str, _port: int) -> Sequence[Address]:
        return [ip_address(answers.pop(0))]

    proxy, socket = Proxy(tmp_path / "proxy"), tmp_path / "proxy"
    await proxy.start()
    try:
        hosts, network = ["named.example"], ["127.0.0.0/8"]
        proxy.policy = AddressPolicy(hosts, hosts, both=True, resolver=resolver)
        assert (await _through(proxy, socket, f"named.example:{port}")).startswith(b"HTTP/1.0 200")
        assert answers == ["127.0.0.2", "127.0.0.1"]

        for policy in (
            AddressPolicy(hosts, [], both=True, resolver=resolver),
            AddressPolicy(hosts, network, both=True, resolver=resolver),
        ):
            proxy.policy = policy
            assert await _through(proxy, socket, f"named.example:{port}") == b""
            assert "private address 127.0.0" in proxy.refused["named.example", int(port)]
    finally:
        await proxy.close()
    assert site.requests == ["GET /"]
