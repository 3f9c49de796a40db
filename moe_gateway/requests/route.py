"""Route: which instance answers a request, and which others may be tried after it."""

from collections.abc import Sequence
from dataclasses import replace

from hearth.service.http_errors import Refused
from moe_gateway.endpoints import SPEECH
from moe_gateway.errors import Headers, none_healthy, too_deep
from moe_gateway.requests.context import NO_NEEDS, RequestContext
from moe_gateway.requests.reply import EXPERT, ROUTE, Reply
from moe_gateway.routing.admission import RetryBudget
from moe_gateway.routing.body import first_words
from moe_gateway.routing.choice import (
    Route,
    able_for_auto,
    able_to_call,
    able_to_draw,
    able_to_rank,
    choose,
    choose_named,
    choose_speech,
    having,
)
from moe_gateway.routing.classifier import Classifier
from moe_gateway.routing.instances import Instance
from moe_gateway.settings import AUTO


class Router:
    """Selects an instance for each attempt, within the limit of failovers.

    Without a `classifier`, only callers and rules determine the domain of a request for `auto`. A
    chain of agents has at most `max_depth` requests.
    """

    def __init__(
        self, instances: Sequence[Instance], classifier: Classifier | None, max_depth: int
    ) -> None:
        self.instances, self.classifier, self.max_depth = instances, classifier, max_depth
        self.budget = RetryBudget()

    async def begin(self, request: RequestContext) -> None:
        """Make the first routing decision; `pick` uses it. Raises `Refused`."""
        if self.classifier is not None and request.look.model == AUTO and request.kind == "chat":
            await self._classify(request, self.classifier)
        request.route = self._route(request)
        self.budget.request()

    def pick(self, request: RequestContext, reply: Reply) -> Instance | None:
        """Return the best instance with a free slot that was not tried yet; None: the request
        has to wait. A declared fallback is used when no other instance is left, not when they
        are only busy."""
        route, request.route = request.route or self._route(request), None
        left: Sequence[Instance] = route.order
        if request.tried:
            left = [one for one in left if one.label not in request.tried]
        if not left:
            left = [one for one in route.spare if one.label not in request.tried]
        if not left:
            raise request.failure or none_healthy(request.look.model, {})
        chosen = next((one for one in left if one.free), None)
        if chosen is None:
            return None
        if chosen.settings.lists_models and request.depth >= self.max_depth:
            raise too_deep(self.max_depth)
        request.affinity_hit = chosen is route.home
        reply.facts = _facts(request, chosen, route)
        return chosen

    def sleepers(self, request: RequestContext) -> list[Instance]:
        """Return the instances that could answer if their machine were awake; none if one that is
        ready can. Instances of a declared fallback do not count."""
        model = request.look.model
        if request.kind in SPEECH:
            named = [one for one in self.instances if one.speech == request.kind]
        elif model == AUTO:
            named = able_for_auto(request.needed(), self.instances)
        else:
            named = having(model, self.instances)
        return [] if any(one.usable for one in named) else named

    def may_fail_over(
        self, request: RequestContext, instance: Instance, *, sent: bool = True
    ) -> bool:
        """Return whether another instance can be tried and the limit of failovers is not
        reached. An instance to which nothing was sent does not count."""
        try:
            route = self._route(request)
        except Refused:
            return False
        if all(one.label in request.tried for one in (*route.order, *route.spare)):
            return False
        return not sent or self.budget.spend(instance.slots)

    def _route(self, request: RequestContext) -> Route[Instance]:
        model = request.look.model
        if request.kind in SPEECH:
            route = choose_speech(request.kind, model, self.instances)
            request.model = model
            return route
        if model == AUTO:
            request.model = model
            return choose(model, request.needed(), self.instances)
        named = having(model, self.instances)
        if named:
            request.model = model
        if request.kind == "rerank":
            named = able_to_rank(model, named)
        if request.kind == "images":
            named = able_to_draw(model, named)
        if request.look.forces_tool:
            named = able_to_call(model, named)
        if named and named[0].fallback:
            needs = request.needed()
        else:
            needs = request.needed_by_name() if len(named) > 1 else NO_NEEDS
        return choose_named(model, named, needs, self.instances)

    async def _classify(self, request: RequestContext, classifier: Classifier) -> None:
        needs = request.needed()
        if not needs.domain:
            domain = await classifier.domain_of(first_words(request.body), needs)
            request.needs = replace(needs, domain=domain)


def _facts(request: RequestContext, instance: Instance, route: Route[Instance]) -> Headers:
    """Return the response headers that name the expert and the reason of its selection."""
    first = bool(route.order) and instance is route.order[0]
    reason = route.reason if first else route.reason_for(instance, request.tried)
    if request.by_default:
        reason += "; the default for a name that nobody has"
    facts = [
        (EXPERT, (instance.expert or instance.speech or request.look.model).encode()),
        (ROUTE, (reason + request.notice + request.failover_trail).encode()),
    ]
    if instance.model is not None:
        facts.append((b"x-hearth-model", instance.model.encode()))
    return facts
