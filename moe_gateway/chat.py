"""The hot routes: one small ASGI callable, because a token must not wait for a framework.

`POST /v1/chat/completions`, `/v1/completions` and `/v1/embeddings`: look at the body, choose an
instance, send the caller's own bytes on, pass the answer back as it comes.
"""

import asyncio
import time
from dataclasses import dataclass
from typing import Final, Literal

import structlog
from starlette.types import Receive, Scope, Send

from hearth.openai_api.usage import TokenCount
from moe_gateway.errors import NO_RETRY, Headers, Refused, no_key, stopping
from moe_gateway.instances import Instance
from moe_gateway.keys import Keyring
from moe_gateway.metrics import GONE, NOWHERE, UNKNOWN, GatewayMetrics
from moe_gateway.pool import Pool
from moe_gateway.relay import (
    CallerGone,
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
from moe_gateway.upstream import (
    Connection,
    ConnectTimedOut,
    Lost,
    TimedOut,
    Unreachable,
    UpstreamError,
)

log = structlog.get_logger()

Kind = Literal["chat", "text", "embeddings"]
HOT: Final[dict[str, Kind]] = {
    "/v1/chat/completions": "chat",
    "/v1/completions": "text",
    "/v1/embeddings": "embeddings",
}

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
    passed_over: str = ""
    """Which instances could not answer, for the caller to read."""
    model: str = UNKNOWN
    instance: str = NOWHERE

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
    ) -> None:
        self.settings, self.keys, self.instances = settings, keys, instances
        self.pool, self.metrics = pool, metrics
        self.draining = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        reply = Reply(scope["headers"], send)
        try:
            self._admit(scope)
            body = await read_body(scope["headers"], receive, self.settings.max_body_bytes)
            look = look_at(body)
        except CallerGone:
            return
        except Refused as refused:
            await reply.refuse(refused)
            self.metrics.count(UNKNOWN, NOWHERE, f"{refused.status // 100}xx")
            return
        asked = Asked(HOT[scope["path"]], scope["path"], scope["headers"], body, look)
        await self._until_gone(asked, reply, receive)

    def _admit(self, scope: Scope) -> None:
        authorization = next((v for n, v in scope["headers"] if n == b"authorization"), b"")
        if self.keys.name_of(authorization) is None:
            raise no_key()
        if scope["method"] != "POST":
            message = f"{scope['path']} takes POST, not {scope['method']}."
            raise Refused(405, "method_not_allowed", message, headers=[(b"allow", b"POST")])
        if self.draining:
            raise stopping()

    async def _until_gone(self, asked: Asked, reply: Reply, receive: Receive) -> None:
        """Answer; when the caller hangs up before the end, drop everything at once."""
        task = asyncio.current_task()
        assert task is not None
        watcher = asyncio.create_task(_watch(receive, reply, task))
        try:
            await self._answer(asked, reply)
        except asyncio.CancelledError:
            if not reply.gone:
                if not reply.status:
                    await reply.refuse(stopping())
                raise
            task.uncancel()
            log.info("caller_gone", request_id=reply.request_id.decode(), instance=asked.instance)
        finally:
            watcher.cancel()
            self._count(asked, reply)

    async def _answer(self, asked: Asked, reply: Reply) -> None:
        try:
            await self._first_that_can(asked, reply, self._route(asked))
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
            if not reply.status:
                await reply.refuse(
                    Refused(500, "internal_error", "The gateway failed; see its log.")
                )
            raise

    def _route(self, asked: Asked) -> Route[Instance]:
        model = asked.look.model
        needs = needs_of(asked.body, asked.kind) if model == AUTO else Needs()
        if model == AUTO or any(model in instance.names for instance in self.instances):
            asked.model = model
        return choose(model, needs, self.instances)

    async def _first_that_can(self, asked: Asked, reply: Reply, route: Route[Instance]) -> None:
        """Ask one instance after the other, as long as the caller has got no byte."""
        for left, instance in reversed(list(enumerate(reversed(route.order)))):
            reply.facts = _facts(asked, instance, route)
            try:
                if await self._ask(asked, reply, instance, last=left == 0):
                    return
                failure = "busy"
            except UpstreamError as error:
                if isinstance(error, Unreachable):
                    instance.ill(str(error))
                if left == 0 or not _may_be_asked_elsewhere(error, instance):
                    raise _refusal(error) from error
                failure = error.code
            asked.passed_over += f"; not {instance.label}: {failure}"
            self.metrics.failed_over(asked.model, instance.label)
            log.warning("failed_over", instance=instance.label, reason=failure)

    async def _ask(self, asked: Asked, reply: Reply, instance: Instance, *, last: bool) -> bool:
        """Ask this instance; False when it is too busy and there is another one to ask."""
        asked.instance = instance.label
        body = asked.body_for(instance)
        path = (instance.address.path + asked.path).encode()
        head = request_head(path, instance.fixed_head, asked.headers, reply.request_id, len(body))
        connection: Connection | None = None
        instance.in_flight += 1
        try:
            connection = await self.pool.ask(
                instance.address,
                head,
                body,
                seconds=self.settings.first_byte_timeout,
                reuse=instance.repeatable,
            )
            if connection.status in BUSY and not last:
                return False
            usage = await self._pass(asked, reply, instance, connection)
        finally:
            instance.in_flight -= 1
            if connection is not None:
                self.pool.release(connection)
        if usage is not None:
            self.metrics.used(asked.model, instance.label, usage)
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
