"""The people of an instance: their issued keys, through the gateway, and their conversations."""

from typing import Any, Final
from urllib.parse import quote

from pipecatapp.application.conversations import ConversationSummary
from pipecatapp.application.engine import Engine
from pipecatapp.application.status import Directory
from pipecatapp.records import conversations as records
from pipecatapp.records.conversations import OwnerSummary

__all__ = ["ConversationSummary", "OwnerSummary", "PeopleService"]

ASK_SECONDS: Final = 30.0


class PeopleService:
    """Keys are administered by the gateway's `/api/keys`, as `hearth keys --gateway` does.

    The methods about keys return the status and the body that the gateway answers, its refusals
    too, and raise `GatewayAway` when it does not answer.
    """

    def __init__(self, directory: Directory, engine: Engine) -> None:
        self._directory, self._ledger = directory, engine.ledger

    async def keys(self) -> tuple[int, Any]:
        """Each key with its limits and what it has used today."""
        return await self._ask("GET", "")

    async def add(self, key: Any) -> tuple[int, Any]:
        """Issue a key: `name` and the limits. The answer has the secret, this once."""
        return await self._ask("POST", "", key)

    async def limit(self, name: str, limits: Any) -> tuple[int, Any]:
        """Replace the limits of a key."""
        return await self._ask("PUT", f"/{quote(name, safe='')}", limits)

    async def revoke(self, name: str) -> tuple[int, Any]:
        """Close a key for good."""
        return await self._ask("DELETE", f"/{quote(name, safe='')}")

    def owners(self) -> list[OwnerSummary]:
        """The number of conversations of each key; the built-in key is the empty name."""
        return records.owners(self._ledger.read)

    def conversations(self, owner: str, limit: int) -> list[ConversationSummary]:
        """The conversations of one key, the newest first."""
        return records.of_owner(self._ledger.read, owner, limit)

    async def _ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        answer = await self._directory.ask_gateway(
            method, f"/api/keys{path}", body, seconds=ASK_SECONDS
        )
        return answer.status_code, answer.json()
