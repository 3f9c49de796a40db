"""A server on the loopback address, which is named as a private address that tools may request."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from pipecatapp.records.secrets import Secrets
from pipecatapp.tools import TOOLS
from pipecatapp.tools.web import fetching
from pipecatapp.tools.web.addresses import Address, AddressPolicy
from pipecatapp.workflow import Context
from tests.conftest import served

Handler = Callable[[Request], Awaitable[Response]]


class Site:
    """A web server. `plan` has the answers for the next requests; then each request is echoed."""

    def __init__(self) -> None:
        self.plan: list[Response] = []
        self.seen: list[Request] = []
        self.slow = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            request = Request(scope, receive)
            body = await request.body()
            self.seen.append(request)
            await asyncio.sleep(self.slow)
            answer = self.plan.pop(0) if self.plan else _echo(request, body)
            await answer(scope, receive, send)


def _echo(request: Request, body: bytes) -> Response:
    told = {"method": request.method, "path": str(request.url.path), "body": body.decode()}
    return JSONResponse({**told, "headers": dict(request.headers)})


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[Site, int]]:
    """Start it once for the module."""
    site = Site()
    with served(site) as address:
        yield site, urlsplit(address).port or 0


@pytest.fixture
def site(server: tuple[Site, int]) -> Site:
    server[0].plan, server[0].seen, server[0].slow = [], [], 0.0
    return server[0]


@pytest.fixture
def port(server: tuple[Site, int]) -> int:
    return server[1]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "PAUSE", 0.001)


NAMES = {"api.example": "127.0.0.1", "other.example": "127.0.0.1", "evil.example": "127.0.0.2"}
"""Names of this test's own DNS: no name of the real one is asked for."""


@pytest.fixture
def asked() -> list[str]:
    """The names that were looked up."""
    return []


@pytest.fixture
def ctx(port: int, asked: list[str], tmp_path: Path) -> Context:
    """A node of a project with a secret, in a home that names two hosts."""

    async def resolver(host: str, _port: int) -> Sequence[Address]:
        asked.append(host)
        return [ip_address(NAMES[host])]

    private = [f"api.example:{port}", f"other.example:{port}"]
    policy = AddressPolicy([], private, resolver=resolver)
    secrets = Secrets(tmp_path / "secrets", {})
    secrets.keep("forge", "hunter2-hunter2")
    ctx = Context(
        workspace=tmp_path,
        project={"secrets": {"forge": "kept:forge"}},
        services={AddressPolicy: policy, Secrets: secrets},
    )

    async def inner(tool: str, given: object, *, at: str, say: object) -> dict[str, Any]:
        assert isinstance(given, dict)
        return await TOOLS[tool].check(ctx, given)

    ctx.inner = inner
    return ctx
