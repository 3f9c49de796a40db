"""Where `hearth keys` works: on the file of this machine's instance, or at a gateway elsewhere."""

from dataclasses import asdict, dataclass
from typing import Any, Final, Protocol
from urllib.parse import quote

import httpx2

from hearth.openai_api.errors import message_of
from moe_gateway.keys.store import KeyProblem, KeyStore, Limits, Usage, row_of, today

Json = dict[str, Any]
ASK_SECONDS: Final = 30.0


class GatewayAway(KeyProblem):
    """Is the address that of the gateway, and is it running there?"""


class GatewayRefused(KeyProblem):
    """The sentence is the gateway's own."""


class KeyAdmin(Protocol):
    """Operations on keys. Each raises `KeyProblem` with a message for the user."""

    def add(self, name: str, limits: Limits) -> str:
        """Create a key; it is returned only once."""

    def rows(self) -> list[Json]:
        """Return the keys as rows (see `row_of`)."""

    def limit(self, name: str, limits: Limits) -> None:
        """Change the limits of a key."""

    def revoke(self, name: str) -> None:
        """Revoke a key permanently."""


@dataclass(frozen=True)
class LocalKeyAdmin:
    """The key store of an instance; its gateway reads it every second."""

    store: KeyStore

    def add(self, name: str, limits: Limits) -> str:
        return self.store.add(name, limits)

    def rows(self) -> list[Json]:
        used = self.store.usage(today())
        return [row_of(key, used.get(key.name, Usage())) for key in self.store.all()]

    def limit(self, name: str, limits: Limits) -> None:
        self.store.limit(name, limits)

    def revoke(self, name: str) -> None:
        self.store.revoke(name)


@dataclass(frozen=True)
class RemoteKeyAdmin:
    """`/api/keys` of a gateway; `http` has its address and a key with the scope `admin`."""

    http: httpx2.Client

    def add(self, name: str, limits: Limits) -> str:
        return str(self._ask("POST", "", {"name": name, **asdict(limits)})["key"])

    def rows(self) -> list[Json]:
        rows: list[Json] = self._ask("GET", "")["keys"]
        return rows

    def limit(self, name: str, limits: Limits) -> None:
        self._ask("PUT", f"/{quote(name, safe='')}", asdict(limits))

    def revoke(self, name: str) -> None:
        self._ask("DELETE", f"/{quote(name, safe='')}")

    def _ask(self, method: str, path: str, body: Json | None = None) -> Json:
        try:
            answer = self.http.request(method, f"/api/keys{path}", json=body, timeout=ASK_SECONDS)
        except httpx2.TransportError as error:
            reason = str(error) or type(error).__name__
            where = self.http.base_url
            raise GatewayAway(f"The gateway at {where} does not answer: {reason}.") from error
        try:
            found: Json = answer.json()
        except ValueError as error:
            where = self.http.base_url
            message = f"The server at {where} is not a gateway (HTTP {answer.status_code})."
            raise GatewayAway(message) from error
        if not answer.is_success:
            raise GatewayRefused(message_of(found))
        return found
