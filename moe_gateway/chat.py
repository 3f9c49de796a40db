"""The hot routes: one small ASGI callable, because a token must not wait for a framework.

`POST /v1/chat/completions`, `/v1/completions` and `/v1/embeddings`: look at the body, choose an
instance, send the caller's own bytes on, pass the answer back as it comes.
"""

import asyncio
import time
from dataclasses import dataclass, field
from typing import Final, Literal

import structlog
from starlette.types import Receive, Scope, Send

from hearth.openai_api.usage import TokenCount
from moe_gateway.admission import Admission, RetryBudget
from moe_gateway.callers.keyring import Keyring
from moe_gateway.callers.limits import Caller
from moe_gateway.errors import (
    NO_RETRY,
    Headers,
    Refused,
    busy,
    deadline_passed,
    no_key,
    none_healthy,
    stopping,
)
from moe_gateway.instances import Instance
from moe_gateway.metrics import GONE, NOWHERE, UNKNOWN, GatewayMetrics
from moe_gateway.relay import (
    CallerGone,
    Clock,
    Reply,
    pass_assembled,
    pass_stream,
    pass_whole,
    read_body,
    request_head,
)
from moe_gateway.routing import (
    AUTO,
    Look,
    Needs,
    Route,
    changed,
    choose,
    look_at,
    needs_of,
)
from moe_gateway.settings import Settings
from moe_gateway.upstream.connection import (
    Connection,
    ConnectTimedOut,
    Lost,
    TimedOut,
    Unreachable,
    UpstreamError,
)
from moe_gateway.upstream.pool import Pool

log = structlog.get_logger()

Kind = Literal["chat", "text", "embeddings"]
HOT: Final[dict[str, Kind]] = {
    "/v1/chat/completions": "chat",
    "/v1/completions": "text",
    "/v1/embeddings": "embeddings",
}

QUEUED_SECONDS: Final = 0.001
"""A shorter wait is none: it is the time that looking takes."""

SESSION_HEADERS: Final = frozenset((b"x-session-id", b"x-session-affinity", b"x-openwebui-chat-id"))
"""How callers name the conversation that a request belongs to."""

BUSY: Final = frozenset((429, 502, 503, 504))
"""Says something about the instance, not about the request: another one may do it. A 500 does
not: it would most likely come again."""


@dataclass(slots=True)
class Asked:
    """One request, and how far it came."""

    kind: Kind
    path: str
    headers: Headers
    body: bytes
    look: Look
    caller: Caller
    needs: Needs | None = None
    passed_over: str = ""
    """Which instances could not answer, for the caller to read."""
    failure: Refused | None = None
    """What the last instance that was asked came to."""
    tried: set[str] = field(default_factory=set)
    model: str = UNKNOWN
    instance: str = NOWHERE
    usage: TokenCount | None = None
    queued: float = 0.0
    """Seconds that it waited for its turn."""

    def needed(self) -> Needs:
        """What an instance needs to have for it; the body is looked at once."""
        if self.needs is None:
            self.needs = needs_of(self.body, self.kind, _session(self.headers))
        return self.needs

    def assembled_on(self, instance: Instance) -> bool:
        """Whether a stream is asked for and put together, so that a hang-up stops the work."""
        return not (self.look.stream or instance.settings.stops_unary or self.kind == "embeddings")

    def body_for(self, instance: Instance) -> bytes:
        """The caller's own bytes, unless the instance needs to be asked otherwise."""
        fields: dict[str, object] = {}
        if instance.model_for(self.look.model) != self.look.model:
            fields["model"] = instance.model_for(self.look.model)
        if self.assembled_on(instance):
            fields["stream"] = True
        streams = self.kind != "embeddings" and (self.look.stream or "stream" in fields)
        if streams and not self.look.wants_usage:
            fields["stream_options"] = {"include_usage": True}
        return changed(self.body, **fields) if fields else self.body


class HotRoutes:
    """Answers the hot routes. `draining` is set when the service stops: then it refuses."""

    def __init__(
        self,
        settings: Settings,
        keys: Keyring,
        instances: list[Instance],
        pool: Pool,
        metrics: GatewayMetrics,
        admission: Admission[Instance],
    ) -> None:
        self.settings, self.keys, self.instances = settings, keys, instances
        self.pool, self.metrics, self.admission = pool, metrics, admission
        self.budget = RetryBudget()
        self.draining = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        reply = Reply(scope["headers"], send)
        try:
            caller = self._admit(scope)
            body = await read_body(scope["headers"], receive, self.settings.max_body_bytes)
            look = look_at(body)
            caller.admit(look.model)
        except CallerGone:
            return
        except Refused as refused:
            await reply.refuse(refused)
            self.metrics.count(UNKNOWN, NOWHERE, f"{refused.status // 100}xx")
            return
        asked = Asked(HOT[scope["path"]], scope["path"], scope["headers"], body, look, caller)
        await self._until_gone(asked, reply, receive)

    def _admit(self, scope: Scope) -> Caller:
        authorization = next((v for n, v in scope["headers"] if n == b"authorization"), b"")
        caller = self.keys.caller_of(authorization)
        if caller is None:
            raise no_key()
        if scope["method"] != "POST":
            message = f"{scope['path']} takes POST, not {scope['method']}."
            raise Refused(405, "method_not_allowed", message, headers=[(b"allow", b"POST")])
        if self.draining:
            raise stopping()
        return caller

    async def _until_gone(self, asked: Asked, reply: Reply, receive: Receive) -> None:
        """Answer; when the caller hangs up or the deadline passes, drop everything at once."""
        task = asyncio.current_task()
        assert task is not None
        watcher = asyncio.create_task(_watch(receive, reply, task))
        clock = Clock(
            reply,
            task,
            deadline=self.settings.deadline_seconds,
            every=self.settings.keepalive_seconds if asked.look.stream else None,
        )
        try:
            await self._answer(asked, reply)
        except asyncio.CancelledError:
            if not (reply.gone or reply.late):
                if not reply.ended:
                    await reply.refuse(stopping())
                raise
            task.uncancel()
            if reply.late and not reply.ended:
                await reply.refuse(deadline_passed(self.settings.deadline_seconds))
            event = "caller_gone" if reply.gone else "deadline_passed"
            log.info(event, request_id=reply.request_id.decode(), instance=asked.instance)
        finally:
            watcher.cancel()
            clock.stop()
            self._count(asked, reply)

    async def _answer(self, asked: Asked, reply: Reply) -> None:
        try:
            await self._first_that_can(asked, reply)
        except Refused as refused:
            if refused.status >= 500:
                log.warning(
                    "request_refused",
                    request_id=reply.request_id.decode(),
                    code=refused.code,
                    reason=refused.message,
                )
            await reply.refuse(refused)
        except Exception:
            if not reply.ended:
                await reply.refuse(
                    Refused(500, "internal_error", "The gateway failed; see its log.")
                )
            raise

    def _route(self, asked: Asked) -> Route[Instance]:
        model = asked.look.model
        offering = sum(model in instance.names for instance in self.instances)
        if model == AUTO or offering:
            asked.model = model
        needs = asked.needed() if model == AUTO or offering > 1 else Needs()
        return choose(model, needs, self.instances)

    def _pick(self, asked: Asked, reply: Reply) -> Instance | None:
        """The best instance that has room and was not asked yet; none: the request has to wait."""
        route = self._route(asked)
        left = [one for one in route.order if one.label not in asked.tried]
        if not left:
            raise asked.failure or none_healthy(asked.look.model, {})
        chosen = next((one for one in left if one.free), None)
        if chosen is not None:
            reply.facts = _facts(asked, chosen, route)
        return chosen

    async def _first_that_can(self, asked: Asked, reply: Reply) -> None:
        """Ask one instance after the other, as long as the caller has got no byte."""
        self._route(asked)
        self.budget.request()
        while not await self._served(asked, reply):
            asked.passed_over += f"; not {asked.instance}: {_code(asked.failure)}"
            self.metrics.failed_over(asked.model, asked.instance)
            log.warning("failed_over", instance=asked.instance, reason=_code(asked.failure))

    async def _served(self, asked: Asked, reply: Reply) -> bool:
        """Wait for an instance and ask it; False when another one should be asked."""
        since = time.perf_counter()
        instance = await self.admission.enter(
            asked.caller.name, asked.model, lambda: self._pick(asked, reply)
        )
        self._note_wait(asked, reply, time.perf_counter() - since)
        asked.instance = instance.label
        asked.tried.add(instance.label)
        try:
            return await self._ask(asked, reply, instance)
        except UpstreamError as error:
            asked.failure = _refusal(error)
            if isinstance(error, Unreachable):
                instance.ill(str(error))
            else:
                instance.failed(str(error))
            if _may_be_asked_elsewhere(error, instance) and self._may_go_on(asked):
                return False
            raise asked.failure from error
        finally:
            self.admission.leave(instance)

    def _note_wait(self, asked: Asked, reply: Reply, seconds: float) -> None:
        if seconds < QUEUED_SECONDS:
            return
        asked.queued += seconds
        self.metrics.queued(asked.model, seconds)
        reply.facts.append((b"x-hearth-queued-ms", b"%d" % (asked.queued * 1000)))

    def _may_go_on(self, asked: Asked) -> bool:
        """Whether there is another instance to ask, and failovers are not too many already."""
        try:
            order = self._route(asked).order
        except Refused:
            return False
        return any(one.label not in asked.tried for one in order) and self.budget.spend()

    async def _ask(self, asked: Asked, reply: Reply, instance: Instance) -> bool:
        """Ask this instance; False when it is too busy and there is another one to ask."""
        body = asked.body_for(instance)
        path = (instance.address.path + asked.path).encode()
        head = request_head(path, instance.fixed_head, asked.headers, reply.request_id, len(body))
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
            if connection.status >= 500:
                instance.failed(f"HTTP {connection.status}")
            else:
                instance.answered(time.perf_counter() - sent)
            if connection.status in BUSY and self._may_go_on(asked):
                asked.failure = busy(instance.label, connection.status)
                return False
            usage = await self._pass(asked, reply, instance, connection)
        finally:
            if connection is not None:
                self.pool.release(connection)
        if usage is not None:
            self.metrics.used(asked.model, instance.label, usage)
            asked.usage = usage
        return True

    async def _pass(
        self, asked: Asked, reply: Reply, instance: Instance, connection: Connection
    ) -> TokenCount | None:
        idle = self.settings.idle_timeout
        if connection.status == 401:
            log.error("instance_refuses_our_key", instance=instance.label)
            message = f"{instance.label} refuses the gateway's own key (its `key_file`)."
            raise Refused(502, "upstream_refused_key", message, headers=[NO_RETRY])
        streams = connection.content_type.startswith(b"text/event-stream")
        if connection.status >= 400 or not streams:
            return await pass_whole(reply, connection, idle)
        if asked.assembled_on(instance):
            return await pass_assembled(reply, connection, idle)
        return await pass_stream(reply, connection, idle, strip=not asked.look.wants_usage)

    def _count(self, asked: Asked, reply: Reply) -> None:
        status = GONE if reply.gone else f"{reply.status // 100}xx"
        self.metrics.count(asked.model, asked.instance, status)
        if asked.instance != NOWHERE:
            self.keys.used(asked.caller, asked.model, asked.usage)
        if status == "2xx":
            meters = self.metrics.of(asked.model, asked.instance)
            meters.first_byte.observe(reply.first_byte_at - reply.started_at)
            meters.duration.observe(time.perf_counter() - reply.started_at)


async def _watch(receive: Receive, reply: Reply, task: "asyncio.Task[object]") -> None:
    """End the task when the caller hangs up: one waiter notices it in every phase."""
    while (await receive())["type"] != "http.disconnect":
        pass
    if not reply.ended:
        reply.gone = True
        task.cancel()


def _session(headers: Headers) -> bytes:
    return next((value for name, value in headers if name in SESSION_HEADERS), b"")


def _code(failure: Refused | None) -> str:
    return str(failure.code if failure else "failed")


def _facts(asked: Asked, instance: Instance, route: Route[Instance]) -> Headers:
    """Who answers, and why this one."""
    facts = [
        (b"x-hearth-expert", (instance.expert or asked.look.model).encode()),
        (b"x-hearth-route", (route.reason + asked.passed_over).encode()),
    ]
    if instance.model is not None:
        facts.append((b"x-hearth-model", instance.model.encode()))
    return facts


def _may_be_asked_elsewhere(error: UpstreamError, instance: Instance) -> bool:
    """What was never sent, and what broke where asking has no effects. Silence may be work."""
    return isinstance(error, Unreachable) or (isinstance(error, Lost) and instance.repeatable)


def _refusal(error: UpstreamError) -> Refused:
    """What the caller gets when nobody could answer. What was slow would be slow again, and what
    fell silent has worked already: official clients must not send those three times."""
    if isinstance(error, TimedOut):
        return Refused(504, error.code, str(error), headers=[NO_RETRY])
    if isinstance(error, ConnectTimedOut):
        return Refused(504, error.code, str(error), headers=[(b"retry-after", b"1")])
    if isinstance(error, Unreachable):
        return Refused(503, error.code, str(error), headers=[(b"retry-after", b"1")])
    return Refused(502, error.code, str(error))
