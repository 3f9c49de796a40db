"""The certificate that other devices have to trust."""

from pathlib import Path

import httpx2
from starlette.applications import Starlette

from pipecatapp.api.voice.trust import ADDRESS, trust_routes


async def test_certificate_of_the_authority_is_given_to_everybody(tmp_path: Path) -> None:
    """A phone without it gets no microphone; what it needs opens nothing, so it needs no login."""
    file = tmp_path / "ca.pem"
    file.write_text("-----BEGIN CERTIFICATE-----", encoding="ascii")
    page = httpx2.ASGITransport(app=Starlette(routes=trust_routes(file)))
    async with httpx2.AsyncClient(transport=page, base_url="https://home.test") as browser:
        answer = await browser.get(ADDRESS)

    assert answer.content == file.read_bytes()
    assert answer.headers["content-type"] == "application/x-x509-ca-cert"
    assert "hearth-ca.crt" in answer.headers["content-disposition"]
    assert trust_routes(None) == []
