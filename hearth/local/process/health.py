"""Asking a service how it is."""

from dataclasses import dataclass
from typing import Any

import httpx2

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


async def ask(client: httpx2.AsyncClient, url: str) -> Condition:
    """`GET /health` of the service at `url`; no answer is an answer, too."""
    try:
        response = await client.get(f"{url}/health")
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
