"""Send: one attempt to have a request answered by one instance."""

import time
from typing import Final

from hearth.service.http_errors import Refused
from moe_gateway.errors import NO_RETRY, busy
from moe_gateway.http.connection import (
    Connection,
    ConnectTimedOut,
    Lost,
    TimedOut,
    Unreachable,
    UpstreamError,
)
from moe_gateway.http.headers import TRACEPARENT, heard, request_head
from moe_gateway.http.pool import Pool
from moe_gateway.requests.account import Traces
from moe_gateway.requests.context import RequestContext
from moe_gateway.requests.metrics import GatewayMetrics
from moe_gateway.requests.relay import relay
from moe_gateway.requests.reply import Reply
from moe_gateway.requests.route import Router
from moe_gateway.routing.instances import Instance
from moe_gateway.settings import Settings

BUSY: Final = frozenset((429, 502, 503, 504))
"""Statuses about the instance, not about the request: another one may succeed. A 500 is not
among them, because it would probably repeat. Nor is a response with `FINAL`: a failed run of an
agent."""

FINAL: Final = (b"x-should-retry", NO_RETRY["x-should-retry"].encode())


class Sender:
    """Sends requests to instances, records how they answer, and has the answers relayed."""

    def __init__(
        self,
        settings: Settings,
        pool: Pool,
        router: Router,
        metrics: GatewayMetrics,
        traces: Traces | None,
    ) -> None:
        self.settings, self.pool, self.router = settings, pool, router
        self.metrics, self.traces = metrics, traces

    def begin(self, request: RequestContext, instance: Instance) -> None:
        """Record that this instance is tried now."""
        request.instance, request.tried = instance.label, request.tried | {instance.label}
        request.failure, request.breaker_generation = None, instance.breaker_generation

    def end(self, request: RequestContext, instance: Instance) -> None:
        """Record that the attempt is over, whatever its result."""
        if request.breaker_generation != instance.breaker_generation:
            instance.before -= 1
        if instance.gone:
            request.removed_instances += (instance.label,)

    def fail(self, request: RequestContext, instance: Instance, error: UpstreamError) -> None:
        """Record a failed attempt. Raises `Refused` unless another instance is to be tried."""
        request.failure, sent = _refusal(error), not isinstance(error, Unreachable)
        if sent:
            instance.failed(str(error), request.breaker_generation)
        else:
            instance.ill(str(error))
        # After a timeout the instance may still work, and an agent may have caused effects.
        again = not sent or (isinstance(error, Lost) and instance.repeatable)
        if not again or not self.router.may_fail_over(request, instance, sent=sent):
            raise request.failure from error

    async def send(self, request: RequestContext, reply: Reply, instance: Instance) -> bool:
        """Send it; returns False if the instance is too busy and another one can be tried."""
        body, path = request.body_for(instance), (instance.address.path + request.path).encode()
        fixed, lines = request.fixed_head_for(instance), request.heard.lines
        if self.traces is not None:
            fixed += self.traces.asking(request)
            lines = heard([one for one in request.headers if one[0] != TRACEPARENT]).lines
        head = request_head(path, fixed, lines, reply.request_id, request.content_type, len(body))
        connection: Connection | None = None
        sent = time.perf_counter()
        try:
            connection = await self.pool.ask(
                instance.address,
                head,
                body,
                seconds=self.settings.first_byte_timeout,
                reuse=instance.repeatable,
            )
            final = connection.status >= 429 and FINAL in connection.headers
            ill = connection.status >= 500 and not final
            if not ill:
                seconds = time.perf_counter() - sent
                # A fast 4xx says nothing about latency, so it does not update the mean.
                instance.answered(seconds if connection.status < 400 else instance.first_byte)
                request.meters = self.metrics.of(request.model, instance.label)
                request.meters.upstream.observe(seconds)
            if (
                connection.status in BUSY
                and not final
                and self.router.may_fail_over(request, instance)
            ):
                request.failure = busy(instance.label, connection.status)
            else:
                request.usage = await relay(
                    request, reply, instance, connection, self.settings.idle_timeout
                )
            if ill and (request.failure or reply.status >= 500):  # Else the request was at fault.
                instance.failed(f"HTTP {connection.status}", request.breaker_generation)
        finally:
            if connection is not None:
                self.pool.release(connection)
        if request.usage is not None and request.meters is not None:
            request.meters.used(request.usage, at_home=request.affinity_hit)
        return request.failure is None


def _refusal(error: UpstreamError) -> Refused:
    """Return the error for the caller if no instance could answer. After a timeout, official
    clients must not retry three times: a slow request would be slow again, and a stalled one has
    used the engine."""
    if isinstance(error, TimedOut):
        return Refused(504, error.code, str(error), headers=NO_RETRY)
    if isinstance(error, Unreachable):
        status = 504 if isinstance(error, ConnectTimedOut) else 503
        return Refused(status, error.code, str(error), headers={"retry-after": "1"})
    return Refused(502, error.code, str(error))
