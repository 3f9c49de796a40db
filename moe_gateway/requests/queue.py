"""Queue: take a slot of an instance, or wait in turn until one is free."""

import time
from collections.abc import Callable
from functools import partial
from typing import Final

from hearth.service.http_errors import Refused
from moe_gateway.requests.context import RequestContext
from moe_gateway.requests.metrics import GatewayMetrics
from moe_gateway.requests.reply import EXPERT, ROUTE, Reply
from moe_gateway.requests.route import Router
from moe_gateway.routing.admission import Admission
from moe_gateway.routing.instances import Instance

QUEUED_SECONDS: Final = 0.001
"""A shorter wait does not count: it is the time of the check itself."""


class Queue:
    """Gives each request a slot of the instance that the router picks; `leave` returns the slot."""

    def __init__(
        self, admission: Admission[Instance], router: Router, metrics: GatewayMetrics
    ) -> None:
        self.admission, self.router, self.metrics = admission, router, metrics

    def take(self, request: RequestContext, reply: Reply) -> Instance | None:
        """Take a slot that is free now; None if the request has to wait. Raises `Refused`."""
        instance = self.router.pick(request, reply)
        if instance is not None:
            self.admission.take(instance)
        return instance

    def leave(self, instance: Instance) -> None:
        """Return the slot; the next request in turn that can use it gets it."""
        self.admission.leave(instance)

    async def wait(self, request: RequestContext, reply: Reply) -> Instance:
        """Wait for a slot, and record the time in the queue. Raises `Refused` (429, 503)."""
        since = time.perf_counter()
        instance = await self.admission.enter(
            request.caller.name,
            request.model,
            partial(self.router.pick, request, reply),
            partial(self._placed, request, reply),
        )
        reply.place, seconds = None, time.perf_counter() - since
        try:
            request.caller.afford()  # The key may have used up its tokens meanwhile.
        except Refused:
            self.admission.leave(instance)
            raise
        if seconds >= QUEUED_SECONDS:
            request.queued += seconds
            self.metrics.queued(request.model, seconds)
            reply.facts.append((b"x-hearth-queued-ms", b"%d" % (request.queued * 1000)))
        return instance

    def _placed(self, request: RequestContext, reply: Reply, place: Callable[[], int]) -> None:
        """Record that the request waits in the queue; an instance that was tried before has
        failed."""
        reply.place, reply.facts = place, []
        reply.pending = [
            (EXPERT, request.model.encode()),
            (ROUTE, f"queued{request.failover_trail}".encode()),
        ]
        self.metrics.placed(request.model, place())
