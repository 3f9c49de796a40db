"""The caller of `/mcp`: the key of this instance, or one that the gateway has issued."""

import ssl
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

import httpx2
from starlette.requests import Request

from hearth.openai_api.errors import ModelUnavailable
from hearth.service.http_errors import Refused, sent_key
from pipecatapp.api.access import access_of, known_caller, own_page_only, unknown_key
from pipecatapp.application.callers import owner_of

SCOPES: Final = ("chat", "workflows", "exec", "admin")
"""The scopes of keys, as `hearth keys` has them; only the last one includes the others."""
ASK_SECONDS: Final = 10.0


@dataclass(frozen=True)
class McpCaller:
    """The permissions of a caller.

    `header` states it in the model calls of its runs; it is empty for the key of this instance.
    """

    name: str = ""
    models: tuple[str, ...] = ("*",)
    scopes: tuple[str, ...] = ("admin",)
    header: str = ""

    @property
    def owner(self) -> str:
        """The owner of its notes; empty for a built-in key, which sees those of all."""
        return owner_of(self.header)

    def may_use(self, model: str) -> bool:
        """Return whether the key permits a model name, such as `workflow/summarize`."""
        return any(fnmatchcase(model, pattern) for pattern in self.models)

    def may_do(self, scope: str) -> bool:
        """Return whether the key has a scope."""
        return scope in self.scopes or "admin" in self.scopes


HOUSE: Final = McpCaller()


class Callers:
    """Finds the caller of a request. `tls` trusts the certificate of the gateway."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        self._tls = tls

    async def caller_of(self, request: Request) -> McpCaller:
        """Return the caller. Raises `Refused`: 401, the 429 of its limits, 503 without gateway, and
        403 for a page of another origin, whatever its key (the protocol demands that)."""
        key, access = sent_key(request), access_of(request)
        own_page_only(request, access)
        if key is None or access.opens(key):
            known_caller(request, access)
            return HOUSE
        return _caller(await self._asked(request, key))

    async def _asked(self, request: Request, key: bytes) -> dict[str, Any]:
        """Ask the gateway what a key permits: it knows the issued ones and counts requests."""
        if not key.isascii():
            raise unknown_key()
        headers = {"authorization": f"Bearer {key.decode('ascii')}"}
        try:
            base = request.app.state.model_client.base_url.removesuffix("/v1")
            async with httpx2.AsyncClient(
                verify=self._tls, timeout=ASK_SECONDS, trust_env=False
            ) as http:
                answer = await http.get(f"{base}/api/keys/self", headers=headers)
        except (httpx2.HTTPError, ModelUnavailable) as error:
            message = "The gateway, which knows the issued keys, cannot be reached. Try again."
            raise Refused(503, "gateway_unavailable", message) from error
        if answer.status_code == 429:
            message = str(answer.json()["error"]["message"])
            wait = {"retry-after": answer.headers.get("retry-after", "1")}
            raise Refused(429, answer.json()["error"]["code"], message, headers=wait)
        if not answer.is_success:
            raise unknown_key()
        found: dict[str, Any] = answer.json()
        return found


def _caller(answer: dict[str, Any]) -> McpCaller:
    models, scopes = tuple(map(str, answer["models"])), tuple(map(str, answer["scopes"]))
    return McpCaller(str(answer["name"]), models, scopes, str(answer["caller"]))
