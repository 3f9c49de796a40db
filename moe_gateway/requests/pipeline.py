"""The hot routes: one small ASGI callable, because a token must not wait for a framework.

Summarise the body, select an instance, forward the caller's bytes, and return the answer as it
arrives. `/v1/responses`, `/v1/messages` and Ollama's paths are converted to a request to another
path of `/v1`, and the answer is converted back.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from typing import Final, Protocol

import structlog
from starlette.types import Receive, Scope, Send

from hearth.openai_api.usage import TokenCount
from hearth.service.http_errors import Refused, internal_error
from moe_gateway.endpoints import SPEECH
from moe_gateway.errors import (
    NO_RETRY,
    Headers,
    busy,
    key_refused,
    none_healthy,
    stopping,
    too_deep,
)
from moe_gateway.http.connection import (
    Connection,
    ConnectTimedOut,
    Lost,
    TimedOut,
    Unreachable,
    UpstreamError,
)
from moe_gateway.http.headers import CALLER_HEADER, heard, request_head, request_id
from moe_gateway.http.pool import Pool
from moe_gateway.http.server import Line, line_of
from moe_gateway.requests.authorize import AtOnce, Entrance
from moe_gateway.requests.context import NO_NEEDS, Asked
from moe_gateway.requests.embeddings import as_asked
from moe_gateway.requests.metrics import GONE, NOWHERE, UNKNOWN, GatewayMetrics
from moe_gateway.requests.relay import (
    BY_ITSELF,
    EXPERT,
    ROUTE,
    TRACEPARENT,
    CallerGone,
    Reply,
    no_answer,
    pass_assembled,
    pass_bytes,
    pass_stream,
    pass_whole,
)
from moe_gateway.requests.timeouts import Clock, told_why, watched
from moe_gateway.requests.translated import ReplyFactory
from moe_gateway.routing.admission import Admission, RetryBudget
from moe_gateway.routing.body import first_words
from moe_gateway.routing.choice import (
    Route,
    able_to_call,
    able_to_rank,
    choose,
    choose_named,
    choose_speech,
    having,
)
from moe_gateway.routing.classifier import Classifier
from moe_gateway.routing.instances import Instance
from moe_gateway.settings import AUTO, Settings

log = structlog.get_logger()

QUEUED_SECONDS: Final = 0.001
"""A shorter wait does not count: it is the time of the check itself."""

BUSY: Final = frozenset((429, 502, 503, 504))
"""Statuses about the instance, not about the request: another one may succeed. A 500 is not
among them, because it would probably repeat. Nor is a response with `FINAL`: a failed run of an
agent."""

FINAL: Final = (b"x-should-retry", NO_RETRY["x-should-retry"].encode())


class Traces(Protocol):
    """See `moe_gateway.requests.traces`, which is loaded only where traces are wanted."""

    def asking(self, asked: Asked) -> bytes: ...

    def over(self, asked: Asked, reply: Reply) -> None: ...

    def close(self) -> None: ...


class HotRoutes:
    """Answers the hot routes, for those whom the entrance lets in."""

    def __init__(
        self,
        settings: Settings,
        entrance: Entrance,
        replies: Mapping[str, ReplyFactory],
        pool: Pool,
        metrics: GatewayMetrics,
        admission: Admission[Instance],
        classifier: Classifier | None = None,
        traces: Traces | None = None,
    ) -> None:
        """`replies`: those of paths that are converted, by path."""
        self.settings, self.entrance, self.replies = settings, entrance, replies
        self.keys, self.instances = entrance.keys, entrance.instances
        self.pool, self.metrics, self.admission = pool, metrics, admission
        self.classifier, self.traces = classifier, traces
        self.budget = RetryBudget()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        line = line_of(scope)
        quick = None if self.settings.cors_origins else line
        told = heard(scope["headers"])
        reply = self.replies.get(scope["path"], Reply)(request_id(told.own), send, quick)
        try:
            asked = await self.entrance.read(scope, receive, reply, told, line)
        except CallerGone:
            return
        except AtOnce as at_once:
            reply.facts = [*BY_ITSELF]
            await reply.whole(200, at_once.answer, [])
            self.metrics.count(UNKNOWN, NOWHERE, "2xx")
            return
        except Refused as refused:
            await reply.refuse(refused)
            self.metrics.count(UNKNOWN, NOWHERE, f"{refused.status // 100}xx")
            return
        await self._until_gone(asked, reply, receive, line)

    async def _until_gone(
        self, asked: Asked, reply: Reply, receive: Receive, line: Line | None
    ) -> None:
        """Answer the request; cancel it on disconnect, deadline or revocation of the key."""
        task = asyncio.current_task() if line is None else line.task
        assert task is not None
        watch = watched(line, receive, reply, task)
        clock = Clock(
            reply,
            task,
            self.pool.deadlines,
            asked.caller,
            deadline=self.settings.deadline_seconds,
            every=self.settings.keepalive_seconds if asked.look.stream else inf,
        )
        try:
            await self._answer(asked, reply)
        except asyncio.CancelledError:
            if not reply.cut_off:
                if not reply.ended:
                    await reply.refuse(stopping())
                raise
            task.uncancel()
            event = await told_why(reply, self.settings.deadline_seconds)
            log.info(event, request_id=reply.request_id.decode(), instance=asked.instance)
        finally:
            watch()
            clock.stop()
            self._count(asked, reply)
            for label in asked.left_by:
                self.metrics.forget(label)

    async def _answer(self, asked: Asked, reply: Reply) -> None:
        """Ask one instance after the other, as long as the caller has got no byte."""
        try:
            if self.classifier is not None and asked.look.model == AUTO and asked.kind == "chat":
                await self._classify(asked, self.classifier)
            asked.route = self._route(asked)
            self.budget.request()
            while not await self._served(asked, reply):
                asked.passed_over += f"; not {asked.instance}: {_code(asked.failure)}"
                self.metrics.failed_over(asked.model, asked.instance)
                log.warning("failed_over", instance=asked.instance, reason=_code(asked.failure))
        except Refused as refused:
            if refused.status >= 500:
                why = {"code": refused.code, "reason": refused.message}
                log.warning("request_refused", request_id=reply.request_id.decode(), **why)
            await reply.refuse(refused)
        except Exception:
            if not reply.ended:
                await reply.refuse(internal_error())
            raise

    def _route(self, asked: Asked) -> Route[Instance]:
        model = asked.look.model
        if asked.kind in SPEECH:
            route = choose_speech(asked.kind, model, self.instances)
            asked.model = model
            return route
        if model == AUTO:
            asked.model = model
            return choose(model, asked.needed(), self.instances)
        named = having(model, self.instances)
        if named:
            asked.model = model
        if asked.kind == "rerank":
            named = able_to_rank(model, named)
        if asked.look.forces_tool:
            named = able_to_call(model, named)
        if named and named[0].fallback:
            needs = asked.needed()
        else:
            needs = asked.needed_by_name() if len(named) > 1 else NO_NEEDS
        return choose_named(model, named, needs, self.instances)

    def _pick(self, asked: Asked, reply: Reply) -> Instance | None:
        """Return the best instance with a free slot that was not tried yet; None: the request
        has to wait. A declared fallback is used when no other instance is left, not when they
        are only busy."""
        route, asked.route = asked.route or self._route(asked), None
        left: Sequence[Instance] = route.order
        if asked.tried:
            left = [one for one in left if one.label not in asked.tried]
        if not left:
            left = [one for one in route.spare if one.label not in asked.tried]
        if not left:
            raise asked.failure or none_healthy(asked.look.model, {})
        chosen = next((one for one in left if one.free), None)
        if chosen is None:
            return None
        if chosen.settings.lists_models and asked.depth >= self.settings.max_depth:
            raise too_deep(self.settings.max_depth)
        asked.at_home = chosen is route.home
        reply.facts = _facts(asked, chosen, route)
        return chosen

    async def _classify(self, asked: Asked, classifier: Classifier) -> None:
        needs = asked.needed()
        if not needs.domain:
            domain = await classifier.domain_of(first_words(asked.body), needs)
            asked.needs = replace(needs, domain=domain)

    async def _served(self, asked: Asked, reply: Reply) -> bool:
        """Wait for an instance and send the request; returns False if another one is to be
        tried."""
        instance = self._pick(asked, reply)
        if instance is None:
            instance = await self._its_turn(asked, reply)
        else:
            self.admission.take(instance)
        asked.instance, asked.tried = instance.label, asked.tried | {instance.label}
        asked.failure, asked.era, begun = None, instance.era, time.perf_counter()
        try:
            return await self._ask(asked, reply, instance)
        except UpstreamError as error:
            asked.failure, sent = _refusal(error), not isinstance(error, Unreachable)
            if sent:
                instance.failed(str(error), asked.era)
            else:
                instance.ill(str(error))
            # Silence may be work, and so may be what broke where asking has effects.
            again = not sent or (isinstance(error, Lost) and instance.repeatable)
            if again and self._may_go_on(asked, instance, sent=sent):
                return False
            raise asked.failure from error
        finally:
            if asked.era != instance.era:
                instance.before -= 1
            if instance.gone:
                asked.left_by += (instance.label,)
            self.admission.leave(instance)
            if self.traces is not None:
                asked.attempted(begun)

    async def _its_turn(self, asked: Asked, reply: Reply) -> Instance:
        """Wait for a slot, and record the time in the queue."""
        since = time.perf_counter()
        instance = await self.admission.enter(
            asked.caller.name,
            asked.model,
            partial(self._pick, asked, reply),
            partial(self._placed, asked, reply),
        )
        reply.place, seconds = None, time.perf_counter() - since
        try:
            asked.caller.afford()  # The key may have used up its tokens meanwhile.
        except Refused:
            self.admission.leave(instance)
            raise
        if seconds >= QUEUED_SECONDS:
            asked.queued += seconds
            self.metrics.queued(asked.model, seconds)
            reply.facts.append((b"x-hearth-queued-ms", b"%d" % (asked.queued * 1000)))
        return instance

    def _placed(self, asked: Asked, reply: Reply, place: Callable[[], int]) -> None:
        """Record that the request waits in the queue; an instance that was tried before has
        failed."""
        reply.place, reply.facts = place, []
        reply.pending = [
            (EXPERT, asked.model.encode()),
            (ROUTE, f"queued{asked.passed_over}".encode()),
        ]
        self.metrics.placed(asked.model, place())

    def _may_go_on(self, asked: Asked, instance: Instance, *, sent: bool = True) -> bool:
        """Return whether another instance can be tried and the limit of failovers is not
        reached. An instance to which nothing was sent does not count."""
        try:
            route = self._route(asked)
        except Refused:
            return False
        if all(one.label in asked.tried for one in (*route.order, *route.spare)):
            return False
        return not sent or self.budget.spend(instance.slots)

    async def _ask(self, asked: Asked, reply: Reply, instance: Instance) -> bool:
        """Ask this instance; False when it is too busy and there is another one to ask."""
        body, path = asked.body_for(instance), (instance.address.path + asked.path).encode()
        fixed, lines = asked.fixed_head_for(instance), asked.heard.lines
        if self.traces is not None:
            fixed += self.traces.asking(asked)
            lines = heard([one for one in asked.headers if one[0] != TRACEPARENT]).lines
        head = request_head(path, fixed, lines, reply.request_id, asked.content_type, len(body))
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
                asked.meters = self.metrics.of(asked.model, instance.label)
                asked.meters.upstream.observe(seconds)
            if connection.status in BUSY and not final and self._may_go_on(asked, instance):
                asked.failure = busy(instance.label, connection.status)
            else:
                asked.usage = await self._pass(asked, reply, instance, connection)
            if ill and (asked.failure or reply.status >= 500):  # Else the request was at fault.
                instance.failed(f"HTTP {connection.status}", asked.era)
        finally:
            if connection is not None:
                self.pool.release(connection)
        if asked.usage is not None and asked.meters is not None:
            asked.meters.used(asked.usage, at_home=asked.at_home)
        return asked.failure is None

    async def _pass(
        self, asked: Asked, reply: Reply, instance: Instance, connection: Connection
    ) -> TokenCount | None:
        asked.server, idle = instance, self.settings.idle_timeout
        if connection.status == 401:
            log.error("instance_refuses_our_key", instance=instance.label)
            raise key_refused(instance.label)
        asked.counted_inside = instance.settings.lists_models and connection.has(CALLER_HEADER)
        kind = connection.content_type
        if connection.status >= 400:
            return await pass_whole(reply, connection, idle)
        if asked.kind in SPEECH:
            await pass_bytes(reply, connection, idle)
            return None
        if kind.startswith(b"text/event-stream"):
            passed = pass_stream if asked.look.stream else pass_assembled
            return await passed(reply, connection, idle, asked.look)
        # Official clients would read a document as a stream without a word.
        streams = asked.look.stream is True and asked.kind != "embeddings"
        if streams or (kind and not kind.startswith(b"application/json")):
            raise no_answer(connection, streams=streams)
        finished = as_asked(asked.body) if asked.kind == "embeddings" else bytes
        return await pass_whole(reply, connection, idle, finished)

    def _count(self, asked: Asked, reply: Reply) -> None:
        if self.traces is not None:
            self.traces.over(asked, reply)
        status = GONE if reply.gone else f"{reply.status // 100}xx"
        self.metrics.count(asked.model, asked.instance, status)
        if asked.instance != NOWHERE:
            # An interrupted answer is billed for the tokens already produced.
            so_far = reply.so_far if reply.begun or status in ("2xx", GONE) else None
            self.keys.used(asked.caller, asked.model, asked.cost(so_far))
        meters = asked.meters
        if status == "2xx" and meters is not None:
            now = time.perf_counter()
            meters.first_byte.observe(reply.first_byte_at - reply.started_at)
            meters.duration.observe(now - reply.started_at)
            if asked.look.stream and asked.usage and asked.usage.completion > 1:
                pause = (now - reply.first_byte_at) / (asked.usage.completion - 1)
                meters.between.observe(pause)
                if asked.server is not None:
                    asked.server.paced(pause)


def _code(failure: Refused | None) -> str:
    return str(failure.code if failure else "failed")


def _facts(asked: Asked, instance: Instance, route: Route[Instance]) -> Headers:
    """Return the response headers that name the expert and the reason of its selection."""
    first = bool(route.order) and instance is route.order[0]
    reason = route.reason if first else route.reason_for(instance, asked.tried)
    if asked.by_default:
        reason += "; the default for a name that nobody has"
    facts = [
        (EXPERT, (instance.expert or instance.speech or asked.look.model).encode()),
        (ROUTE, (reason + asked.notice + asked.passed_over).encode()),
    ]
    if instance.model is not None:
        facts.append((b"x-hearth-model", instance.model.encode()))
    return facts


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
