"""The state of one request: its caller, its content and its progress."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from hearth.openai_api.usage import TokenCount
from hearth.service.http_errors import Refused
from moe_gateway.endpoints import Kind
from moe_gateway.errors import Headers
from moe_gateway.http.headers import (
    CALLER_HEADER,
    DOMAIN,
    LANGUAGE,
    SESSION_HEADERS,
    ParsedHeaders,
    session_of,
)
from moe_gateway.keys.delegation import Delegation
from moe_gateway.keys.limits import Caller
from moe_gateway.requests.metrics import NOWHERE, UNKNOWN, Meters
from moe_gateway.routing.audio import with_model
from moe_gateway.routing.body import (
    BYTES_PER_TOKEN,
    WORTH_KEEPING,
    Hints,
    Look,
    Needs,
    changed,
    needs_of,
)
from moe_gateway.routing.choice import Route
from moe_gateway.routing.instances import Instance
from moe_gateway.routing.tool_choice import named_tools

HINT_LENGTH: Final = 100
TEXT_PER_TOKEN: Final = 4
"""Bytes, in the mean of many languages."""
NO_NEEDS: Final = Needs()


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a server; times are those of `time.perf_counter`."""

    instance: str
    begun: float
    ended: float
    failure: str = ""
    """The code of what went wrong."""
    span: int = 0
    """Id of its span in the trace, which was sent to that server."""


class RequestContext:
    """One request. `path` is the path on the server, `depth` the number of agents between the
    request and the first caller.

    Initial values that nearly all requests share are class attributes, not set per request.
    """

    by_default = False
    """The requested model does not exist; the default model answers."""
    needs: Needs | None = None
    failover_trail = ""
    """The instances that could not answer, as text for the route reason."""
    notice = ""
    """Parts of the request that are ignored, for the route reason."""
    failure: Refused | None = None
    """The failure of the last instance that was tried."""
    tried: frozenset[str] = frozenset()
    route: Route[Instance] | None = None
    """The routing decision that admitted it; used once."""
    model = UNKNOWN
    instance = NOWHERE
    affinity_hit = False
    """Its instance was chosen for holding the beginning of its prompt."""
    server: Instance | None = None
    """The instance that answered."""
    meters: Meters | None = None
    """Those of the model on the instance that answered."""
    usage: TokenCount | None = None
    breaker_generation = 0
    """How often the circuit of its instance had opened when the request was sent to it."""
    removed_instances: tuple[str, ...] = ()
    """Instances that were removed after they had been tried."""
    counted_inside = False
    """The agent calls the gateway on the caller's behalf, so the tokens are counted there."""
    queued = 0.0
    """Seconds that it waited in the queue."""
    attempts: tuple[Attempt, ...] = ()
    """Recorded only if requests are traced, as are the ids of the trace and of the current
    attempt."""
    trace = span = 0

    def __init__(
        self,
        kind: Kind,
        path: str,
        headers: Headers,
        heard: ParsedHeaders,
        body: bytes,
        look: Look,
        caller: Caller,
        depth: int = 0,
        content_type: bytes = b"application/json",
    ) -> None:
        self.kind, self.path, self.headers, self.heard = kind, path, headers, heard
        self.body, self.look, self.caller = body, look, caller
        self.depth, self.content_type = depth, content_type

    def record_attempt(self, begun: float) -> None:
        """Record the attempt at its current instance, from `begun` until now."""
        failure = str(self.failure.code or self.failure.status) if self.failure else ""
        ended = time.perf_counter()
        self.attempts += (Attempt(self.instance, begun, ended, failure, self.span),)

    def needed(self) -> Needs:
        """Return the requirements of the request for an instance; the body is parsed once."""
        if self.needs is None:
            self.needs = needs_of(self.body, self.kind, _hints(self.heard.own))
        return self.needs

    def needed_by_name(self) -> Needs:
        """Return the requirements of a request that names its model: only prompt affinity
        matters. A small request without a conversation has no prefix worth hashing."""
        small = len(self.body) < WORTH_KEEPING and b"prompt_cache_key" not in self.body
        if small and self.heard.own.keys().isdisjoint(SESSION_HEADERS):
            return NO_NEEDS
        return self.needed()

    def cost(self, so_far: Callable[[], int] | None) -> TokenCount | None:
        """Return the tokens of the answer, estimated if the server has not reported them, mostly
        because the client disconnected: that must not save budget. `so_far` returns the number
        of tokens received."""
        if self.counted_inside:
            return None
        if self.usage is not None or so_far is None or (said := so_far()) <= 0:
            return self.usage
        return TokenCount(self.needed().tokens * BYTES_PER_TOKEN // TEXT_PER_TOKEN, said)

    def assembled_on(self, instance: Instance) -> bool:
        """Return whether a stream is requested and assembled, so that a disconnect stops the
        engine, and each of several answers reports its usage (llama-server reports it only for
        the first one)."""
        if self.look.stream or (instance.settings.stops_unary and not self.look.several):
            return False
        return self.kind in ("chat", "text")

    def body_for(self, instance: Instance) -> bytes:
        """Return the caller's body, with changes if the instance needs them."""
        model = instance.model_for(self.look.model)
        if self.kind == "stt":
            same = model == self.look.model
            return self.body if same else with_model(self.content_type, self.body, model)
        fields: dict[str, object] = {}
        if model != self.look.model or self.by_default:
            fields["model"] = model
        if self.look.names_tools and instance.expert is not None:
            fields |= named_tools(self.body)
        if self.assembled_on(instance):
            fields["stream"] = True
        streams = self.kind in ("chat", "text") and (self.look.stream or "stream" in fields)
        if streams and not self.look.wants_usage:
            fields["stream_options"] = {"include_usage": True}
        return changed(self.body, **fields) if fields else self.body

    def fixed_head_for(self, instance: Instance) -> bytes:
        """Return the header lines of every request to an instance; an agent also receives the
        caller."""
        if not instance.settings.lists_models:
            return instance.fixed_head
        caller = Delegation(self.caller.name, self.depth + 1).signed(instance.key)
        return instance.fixed_head + b"%s: %s\r\n" % (CALLER_HEADER, caller)


def _hints(own: Mapping[bytes, bytes]) -> Hints:
    domain, language = (own.get(name, b"").decode("latin-1") for name in (DOMAIN, LANGUAGE))
    return Hints(session_of(own), domain[:HINT_LENGTH], language[:HINT_LENGTH])
