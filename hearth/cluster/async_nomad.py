"""An asynchronous client of Nomad's API for services, which may be tasks of Nomad themselves."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from ssl import SSLContext
from types import TracebackType
from typing import Any, Final, Self

import httpx2

from hearth.cluster.errors import Unreachable, refusal

SOCKET: Final = "unix://"
"""Prefix of an address that is the Unix socket of Nomad's task API."""


class AsyncNomad:
    """`async with AsyncNomad("https://10.0.0.11:4646", token_file=…, timeout=10) as nomad: …`

    `url`: `https://…`, `http://…` or `unix:///…/api.sock`. `timeout` in seconds. `token_file` is
    read again for each request: Nomad renews the token of a workload's identity.
    No variable of the environment (proxy, authority, netrc) changes a request.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout: float,
        token_file: Path | None = None,
        tls: SSLContext | bool = True,
    ) -> None:
        self.url = url.rstrip("/")
        self._token_file = token_file
        if url.startswith(SOCKET):
            transport = httpx2.AsyncHTTPTransport(uds=url.removeprefix(SOCKET))
            self._http = httpx2.AsyncClient(
                base_url="http://localhost", transport=transport, timeout=timeout, trust_env=False
            )
        else:
            self._http = httpx2.AsyncClient(
                base_url=self.url, timeout=timeout, verify=tls, trust_env=False
            )

    async def __aenter__(self) -> Self:
        await self._http.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._http.__aexit__(kind, error, trace)

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Send a request to `/v1/<path>`; return the JSON of the response, None without a body.

        Raises `Unreachable` if there is no response or it is not JSON, and `Refused` or one of its
        subclasses for an error status.
        """
        try:
            response = await self._http.request(
                method,
                f"/v1/{path}",
                params=params,
                json=body,
                headers=await self._headers(),
                timeout=httpx2.USE_CLIENT_DEFAULT if timeout is None else timeout,
            )
        except (httpx2.HTTPError, OSError) as error:
            raise Unreachable(self.url, str(error) or type(error).__name__) from error
        if not response.is_success:
            raise refusal(f"{self.url}/v1/{path}", response.status_code, response.text.strip())
        if not response.content.strip():
            return None
        try:
            return response.json()
        except ValueError as error:
            raise Unreachable(self.url, "its response is not JSON") from error

    async def _headers(self) -> dict[str, str]:
        if self._token_file is None:
            return {}
        token = await asyncio.to_thread(self._token_file.read_text, encoding="ascii")
        return {"x-nomad-token": token.strip()}
