"""Additional listeners, and the addresses that may call them without a key.

Many programs for Ollama have no setting for a key, and expect port 11434. A listener can let named
addresses call without one; they act as a key that was made for them, with its limits and its usage.
"""

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network, ip_address
from typing import Final

from starlette.types import Scope

from hearth.service.http_errors import bearer_key
from moe_gateway.keys.keyring import Keyring
from moe_gateway.keys.limits import Caller
from moe_gateway.settings import ListenerSettings

NO_KEY: Final = b"ollama"
"""The key that Ollama's documentation has OpenAI's clients send, as they need one. It counts as
none."""

LOCALHOST: Final = "localhost"


class Listeners:
    """Knows the caller of a request, whichever listener it came in by."""

    def __init__(self, settings: Sequence[ListenerSettings], keys: Keyring) -> None:
        self.keys = keys
        self._open = {one.port: one for one in settings if one.acts_as is not None}

    def caller_of(self, scope: Scope, own: Mapping[bytes, bytes]) -> Caller | None:
        """The owner of the key in the headers, else the one that the address may act as.

        A request without a key must not come from a web page: it has no `Origin`, and its `Host` is
        an address, `localhost` or a name that the listener has been given, so that no page can
        reach it by its own host name (DNS rebinding).
        """
        caller = self.keys.caller_with(own)
        if caller is not None or not self._open or not _has_no_key(own):
            return caller
        server, client = scope.get("server"), scope.get("client")
        listener = self._open.get(server[1]) if server else None
        if listener is None or client is None or not _within(client[0], listener.addresses):
            return None
        if not _is_no_page(dict(scope["headers"]), listener.names):
            return None
        return self.keys.named(str(listener.acts_as))


def _has_no_key(own: Mapping[bytes, bytes]) -> bool:
    shown = own.get(b"authorization")
    key = own.get(b"x-api-key") if shown is None else bearer_key(shown)
    return not key or key == NO_KEY


def _within(client: str, networks: Sequence[IPv4Network]) -> bool:
    try:
        address = ip_address(client)
    except ValueError:
        return False
    return isinstance(address, IPv4Address) and any(address in one for one in networks)


def _is_no_page(headers: Mapping[bytes, bytes], names: Sequence[str]) -> bool:
    if b"origin" in headers:
        return False
    host = headers.get(b"host", b"").decode("latin-1").rpartition(":")
    name = (host[0] if host[2].isdigit() else "".join(host)).lower()
    try:
        ip_address(name)
    except ValueError:
        return name == LOCALHOST or name in names
    return True
