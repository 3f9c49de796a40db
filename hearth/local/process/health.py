"""Check whether a service is healthy."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx2

from hearth.local.process.service import Service
from hearth.service.settings import read_key

ANSWER_SECONDS = 5.0
"""A service on a machine that does much else is slow, and still not ill."""


@dataclass(frozen=True)
class Condition:
    """How a service is: one word for the machine, a few for people."""

    healthy: bool
    detail: str


def health_client() -> httpx2.AsyncClient:
    """Return a client for loopback: short timeouts, and no proxy from the environment."""
    return httpx2.AsyncClient(timeout=ANSWER_SECONDS, trust_env=False)


async def started(client: httpx2.AsyncClient, service: Service) -> Condition:
    """Check the health of a service, then its `ready_path`, if it has one."""
    condition = await ask(client, service.url)
    if not condition.healthy or service.ready_path is None:
        return condition
    headers = {}
    if service.key_file is not None:
        headers["Authorization"] = f"Bearer {read_key(service.key_file)}"
    return await ask(client, service.url, service.ready_path, headers)


async def ask(
    client: httpx2.AsyncClient,
    url: str,
    path: str = "/health",
    headers: Mapping[str, str] | None = None,
) -> Condition:
    """Request `path` of the service at `url`; a missing answer is a condition, too."""
    try:
        response = await client.get(f"{url}{path}", headers=headers)
    except httpx2.TimeoutException:
        return Condition(healthy=False, detail="does not answer in time")
    except httpx2.TransportError:
        return Condition(healthy=False, detail="does not answer")
    if response.is_success:
        return Condition(healthy=True, detail="ready")
    return Condition(healthy=False, detail=_reason(response))


def _reason(response: httpx2.Response) -> str:
    """The reasons of our services, the error message of a llama.cpp server, or the status."""
    try:
        body: Any = response.json()
    except ValueError:
        body = None
    match body:
        case {"reasons": [*reasons]} if reasons:
            return "; ".join(str(reason) for reason in reasons)
        case {"error": {"message": str(message)}}:
            return message
        case _:
            return f"answers with status {response.status_code}"
