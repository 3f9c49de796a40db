"""The places of one service, from its settings."""

from contextlib import AsyncExitStack
from pathlib import Path
from ssl import SSLContext
from typing import Any, Final

import httpx2

from hearth.cluster.async_nomad import SOCKET, AsyncNomad
from pipecatapp.tools.code.elsewhere.docker import DockerPlace
from pipecatapp.tools.code.elsewhere.errands import Errands
from pipecatapp.tools.code.elsewhere.nomad import NomadPlace
from pipecatapp.tools.code.elsewhere.places import Elsewhere, Places

SECONDS: Final = 30.0
"""How long an engine or a Nomad may take to answer."""
NO_DOCKER: Final = "set PIPECATAPP_DOCKER_URL to a Docker Engine, such as unix:///run/docker.sock"
NO_NOMAD: Final = "set PIPECATAPP_NOMAD_URL and PIPECATAPP_CODE_JOB to a Nomad and its job"


async def open_elsewhere(
    stack: AsyncExitStack,
    errands: Errands,
    *,
    own_url: str,
    docker_url: str | None = None,
    nomad_url: str | None = None,
    code_job: str | None = None,
    nomad_token_file: Path | None = None,
    tls: SSLContext | bool = True,
    ca_file: Path | None = None,
) -> Places:
    """Docker and Nomad where they are set; `own_url` is where machines reach this service."""
    known: dict[str, Elsewhere] = {}
    missing: dict[str, str] = {}
    if docker_url is not None:
        engine = await stack.enter_async_context(docker_client(docker_url, verify=tls))
        known["docker"] = DockerPlace(engine, errands)
    else:
        missing["docker"] = NO_DOCKER
    if nomad_url is not None and code_job is not None:
        nomad = AsyncNomad(nomad_url, timeout=SECONDS, token_file=nomad_token_file, tls=tls)
        await stack.enter_async_context(nomad)
        known["nomad"] = NomadPlace(nomad, errands, code_job, own_url, ca_file)
    else:
        missing["nomad"] = NO_NOMAD
    return Places(known, missing)


def docker_client(address: str, **options: Any) -> httpx2.AsyncClient:
    """A client of the engine at `unix:///…/docker.sock` or `https://…`."""
    if address.startswith(SOCKET):
        socket = httpx2.AsyncHTTPTransport(uds=address.removeprefix(SOCKET))
        return httpx2.AsyncClient(base_url="http://localhost", transport=socket, timeout=SECONDS)
    return httpx2.AsyncClient(
        base_url=address.rstrip("/"), timeout=SECONDS, trust_env=False, **options
    )
