"""Wake: what a request does whose model is on a machine that sleeps."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, get_args

from hearth.service.http_errors import Refused
from moe_gateway.errors import invalid_wake_policy, machine_asleep
from moe_gateway.http.headers import WAKE
from moe_gateway.requests.context import RequestContext
from moe_gateway.requests.reply import EXPERT, ROUTE, Reply
from moe_gateway.requests.route import Router
from moe_gateway.routing.instances import Instance
from moe_gateway.routing.waking import WakePolicy, Waker

AWAY: Final = frozenset((502, 503, 504))
"""Statuses of errors whose cause may be a machine that sleeps."""


class Wake:
    """Answers a request, and wakes the machine of its model if that is necessary.

    `policy` applies to requests without the header `x-hearth-wake`.
    """

    def __init__(self, waker: Waker, router: Router, policy: WakePolicy) -> None:
        self.waker, self.router, self.policy = waker, router, policy

    async def __call__(
        self, request: RequestContext, reply: Reply, answer: Callable[[], Awaitable[None]]
    ) -> None:
        """Call `answer`; again after a wake, if no instance could be reached. Raises `Refused`."""
        policy = self._policy_of(request)
        asleep, failure = self.router.sleepers(request), None
        if asleep and asleep[0].fallback:
            if policy == "smaller":
                self.waker.begin_soon(request.look.model, asleep)
            else:
                failure = await self._wake_before_fallback(request, reply, asleep, policy)
        try:
            await answer()
        except Refused as refused:
            if refused.status not in AWAY or reply.begun:
                raise
            if failure is not None:
                raise failure from refused
            asleep = self.router.sleepers(request)
            if not asleep or not await self._wake(request, reply, asleep, policy):
                raise
            request.tried, request.failure = frozenset(), None
            await answer()

    async def _wake_before_fallback(
        self,
        request: RequestContext,
        reply: Reply,
        instances: Sequence[Instance],
        policy: WakePolicy,
    ) -> Refused | None:
        """Wake the machine, and return the error if it does not wake up: the fallback answers
        then. With the policy `refuse`, the error is raised."""
        try:
            await self._wake(request, reply, instances, policy)
        except Refused as refused:
            if policy == "refuse":
                raise
            return refused
        return None

    async def _wake(
        self,
        request: RequestContext,
        reply: Reply,
        instances: Sequence[Instance],
        policy: WakePolicy,
    ) -> bool:
        """Wake the machine, and wait unless the policy is `refuse`; False: it does not sleep."""
        model = request.look.model
        if policy == "refuse":
            state = await self.waker.begin(model, instances)
            if state is not None:
                raise machine_asleep(model, state.name, state.seconds_left)
            return False
        try:
            return await self.waker.wait(model, instances, lambda text: _show(reply, model, text))
        finally:
            reply.waking = None

    def _policy_of(self, request: RequestContext) -> WakePolicy:
        wanted = request.heard.own.get(WAKE)
        if wanted is None:
            return self.policy
        for policy in get_args(WakePolicy):
            if wanted == policy.encode():
                chosen: WakePolicy = policy
                return chosen
        raise invalid_wake_policy(wanted.decode("latin-1"))


def _show(reply: Reply, model: str, progress: Callable[[], str]) -> None:
    """Show the progress in keep-alive comments, and in the headers that precede them."""
    reply.waking, reply.facts = progress, []
    route = (ROUTE, b"waking its machine")
    reply.pending = [(EXPERT, model.encode("latin-1", "replace")), route]
