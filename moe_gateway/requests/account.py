"""Account: what an answered request counts for: metrics, the usage of its key, and its trace."""

import time
from typing import Protocol

from moe_gateway.keys.keyring import Keyring
from moe_gateway.requests.context import RequestContext
from moe_gateway.requests.metrics import GONE, NOWHERE, UNKNOWN, GatewayMetrics
from moe_gateway.requests.reply import Cut, Reply


class Traces(Protocol):
    """See `moe_gateway.requests.traces`, which is imported only if traces are enabled."""

    def asking(self, request: RequestContext) -> bytes: ...

    def over(self, request: RequestContext, reply: Reply) -> None: ...

    def close(self) -> None: ...


class Account:
    """Records completed requests."""

    def __init__(self, keys: Keyring, metrics: GatewayMetrics, traces: Traces | None) -> None:
        self.keys, self.metrics, self.traces = keys, metrics, traces

    def record_refused(self, status: int) -> None:
        """Count a request that was answered before it was routed."""
        self.metrics.count(UNKNOWN, NOWHERE, f"{status // 100}xx")

    def record(self, request: RequestContext, reply: Reply) -> None:
        """Count a request that was routed, whether its answer is complete or not."""
        if self.traces is not None:
            self.traces.over(request, reply)
        status = GONE if reply.cut is Cut.DISCONNECTED else f"{reply.status // 100}xx"
        self.metrics.count(request.model, request.instance, status)
        if request.instance != NOWHERE:
            # An interrupted answer is billed for the tokens already produced.
            so_far = reply.so_far if reply.begun or status in ("2xx", GONE) else None
            self.keys.used(request.caller, request.model, request.cost(so_far))
        meters = request.meters
        if status == "2xx" and meters is not None:
            now = time.perf_counter()
            meters.first_byte.observe(reply.first_byte_at - reply.started_at)
            meters.duration.observe(now - reply.started_at)
            if request.look.stream and request.usage and request.usage.completion > 1:
                pause = (now - reply.first_byte_at) / (request.usage.completion - 1)
                meters.between.observe(pause)
                if request.server is not None:
                    request.server.paced(pause)
        for label in request.removed_instances:
            self.metrics.forget(label)
