"""The fast path: the stages of a request to a path that servers answer.

receive → authorize → route → queue → send → relay → account. Each stage is a module of this folder.
The fast path bypasses FastAPI, because a token must not wait for a framework.
"""

import asyncio
import time
from collections.abc import Mapping
from functools import partial
from math import inf

import structlog
from starlette.types import Receive, Scope, Send

from hearth.service.http_errors import Refused, internal_error
from moe_gateway.errors import stopping
from moe_gateway.http.connection import UpstreamError
from moe_gateway.http.headers import heard, request_id
from moe_gateway.http.pool import Pool
from moe_gateway.http.server import Line, line_of
from moe_gateway.requests.account import Account, Traces
from moe_gateway.requests.authorize import AtOnce, Authorizer
from moe_gateway.requests.context import RequestContext
from moe_gateway.requests.metrics import GatewayMetrics
from moe_gateway.requests.queue import Queue
from moe_gateway.requests.receive import CallerGone
from moe_gateway.requests.reply import BY_ITSELF, Reply
from moe_gateway.requests.route import Router
from moe_gateway.requests.send import Sender
from moe_gateway.requests.timeouts import RequestTimeouts, send_cut, watched
from moe_gateway.requests.translated import ReplyFactory
from moe_gateway.requests.wake import Wake
from moe_gateway.routing.admission import Admission
from moe_gateway.routing.classifier import Classifier
from moe_gateway.routing.instances import Instance
from moe_gateway.routing.waking import Waker
from moe_gateway.settings import Settings

log = structlog.get_logger()


class FastPath:
    """The ASGI application of the fast path."""

    def __init__(
        self,
        settings: Settings,
        authorizer: Authorizer,
        replies: Mapping[str, ReplyFactory],
        pool: Pool,
        metrics: GatewayMetrics,
        admission: Admission[Instance],
        classifier: Classifier | None = None,
        traces: Traces | None = None,
    ) -> None:
        """`replies`: those of paths that are converted, by path; others have a `Reply`."""
        self.settings, self.authorizer, self.replies = settings, authorizer, replies
        self.deadlines, self.metrics, self.traces = pool.deadlines, metrics, traces
        self.router = Router(authorizer.instances, classifier, settings.max_depth)
        self.queue = Queue(admission, self.router, metrics)
        self.sender = Sender(settings, pool, self.router, metrics, traces)
        self.account = Account(authorizer.keys, metrics, traces)
        waker = Waker(settings, pool) if settings.power_url else None
        self.wake = Wake(waker, self.router, settings.wake_policy) if waker else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Receive and authorize a request, and answer it."""
        line = line_of(scope)
        direct = None if self.settings.cors_origins else line
        headers = heard(scope["headers"])
        reply = self.replies.get(scope["path"], Reply)(request_id(headers.own), send, direct)
        try:
            request = await self.authorizer.read(scope, receive, reply, headers, line)
        except CallerGone:
            return
        except AtOnce as at_once:
            reply.facts = [*BY_ITSELF]
            await reply.whole(200, at_once.answer, [])
            self.account.record_refused(200)
            return
        except Refused as refused:
            await reply.refuse(refused)
            self.account.record_refused(refused.status)
            return
        await self._until_cut(request, reply, receive, line)

    async def _until_cut(
        self, request: RequestContext, reply: Reply, receive: Receive, line: Line | None
    ) -> None:
        """Answer the request; cancel it on disconnect, deadline or revocation of the key."""
        task = asyncio.current_task() if line is None else line.task
        assert task is not None
        stop_watching = watched(line, receive, reply, task)
        timeouts = RequestTimeouts(
            reply,
            task,
            self.deadlines,
            request.caller,
            deadline=self.settings.deadline_seconds,
            every=self.settings.keepalive_seconds if request.look.stream else inf,
        )
        try:
            await self._answer(request, reply)
        except asyncio.CancelledError:
            cut = reply.cut
            if cut is None:
                if not reply.ended:
                    await reply.refuse(stopping())
                raise
            task.uncancel()
            await send_cut(reply, cut, self.settings.deadline_seconds)
            log.info(cut.value, request_id=reply.request_id.decode(), instance=request.instance)
        finally:
            stop_watching()
            timeouts.stop()
            self.account.record(request, reply)

    async def _answer(self, request: RequestContext, reply: Reply) -> None:
        """Answer the request, or send the error that prevents it."""
        try:
            if self.wake is None:
                await self._try_instances(request, reply)
            else:
                await self.wake(request, reply, partial(self._try_instances, request, reply))
        except Refused as refused:
            if refused.status >= 500:
                why = {"code": refused.code, "reason": refused.message}
                log.warning("request_refused", request_id=reply.request_id.decode(), **why)
            await reply.refuse(refused)
        except Exception:
            if not reply.ended:
                await reply.refuse(internal_error())
            raise

    async def _try_instances(self, request: RequestContext, reply: Reply) -> None:
        """Route the request, and try one instance after the other until one answers."""
        await self.router.begin(request)
        while not await self._attempt(request, reply):
            code = str(request.failure.code if request.failure else "failed")
            request.failover_trail += f"; not {request.instance}: {code}"
            self.metrics.failed_over(request.model, request.instance)
            log.warning("failed_over", instance=request.instance, reason=code)

    async def _attempt(self, request: RequestContext, reply: Reply) -> bool:
        """Queue, send and relay; returns False if another instance is to be tried."""
        instance = self.queue.take(request, reply) or await self.queue.wait(request, reply)
        sender, sent_at = self.sender, time.perf_counter()
        sender.begin(request, instance)
        try:
            return await sender.send(request, reply, instance)
        except UpstreamError as error:
            sender.fail(request, instance, error)
            return False
        finally:
            sender.end(request, instance)
            self.queue.leave(instance)
            if self.traces is not None:
                request.record_attempt(sent_at)
