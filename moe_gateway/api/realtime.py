"""`/v1/realtime`: a WebSocket of a caller, relayed to an agent, which speaks OpenAI's Realtime API.

The gateway checks the key, its scopes, models and limits when the session opens. The agent asks
for each response on the caller's behalf, as a chat completion at this gateway; queue, failover and
token budgets apply there.
"""

import asyncio
import ssl
from collections import Counter
from collections.abc import Collection, Coroutine, Mapping
from importlib import import_module
from typing import Any, Final
from urllib.parse import parse_qs, quote

import structlog
from starlette.types import Message, Receive, Scope, Send

from hearth.service.http_errors import Refused
from moe_gateway.endpoints import REALTIME
from moe_gateway.errors import key_refused, no_realtime, no_websocket, none_healthy, too_many_open
from moe_gateway.http.headers import CALLER_HEADER, heard, request_id
from moe_gateway.keys.delegation import Delegation
from moe_gateway.keys.limits import Caller
from moe_gateway.requests.authorize import Authorizer
from moe_gateway.requests.metrics import GONE, NOWHERE, UNKNOWN, GatewayMetrics
from moe_gateway.requests.reply import EXPERT, ROUTE, Reply
from moe_gateway.routing.instances import Instance
from moe_gateway.settings import Settings

log = structlog.get_logger()

SUBPROTOCOL: Final = "realtime"
KEY_CLOSED: Final = 1008
AGENT_LOST: Final = 1011
ENDED: Final = 1000
LARGEST_MESSAGE: Final = 16 * 1024 * 1024
"""Bytes of one event, the limit of OpenAI's API for audio."""
HANDSHAKE_SECONDS: Final = 9.0
"""Time for the agents together to accept a session: the official client gives up after 10 s."""
PING_SECONDS: Final = 20.0
"""Interval of pings to an agent, and the time for it to answer one or to take an event."""
CLOSE_SECONDS: Final = 2.0
"""Time for an agent to answer the end of a session."""


class NotOpenedError(Exception):
    """An agent did not accept a session; the text is the reason."""


class Realtime:
    """The open sessions, and what begins one. `tls` trusts the agents' certificates."""

    def __init__(
        self,
        settings: Settings,
        authorizer: Authorizer,
        metrics: GatewayMetrics,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._settings, self._authorizer, self._metrics = settings, authorizer, metrics
        self._tls = tls
        self._open: dict[asyncio.Task[Any], Caller] = {}
        self._closed: set[asyncio.Task[Any]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one WebSocket; a refusal is an HTTP response with OpenAI's error body."""
        await receive()
        own, task = heard(scope["headers"]).own, asyncio.current_task()
        assert task is not None
        reply = Reply(request_id(own), _denying(send))
        try:
            caller, model = self._admitted(scope, own)
            self._open[task] = caller
            opened = await _unless_gone(self._connected(caller, model, reply), receive)
            if opened is None:
                self._metrics.count(model, NOWHERE, GONE)
                return
            upstream, instance = opened
            await send(_accepted(scope, reply, instance, model))
            code = await self._relayed(task, upstream, receive, send)
            if code != ENDED:
                log.info("realtime_ended", code=code, instance=instance.label)
                await send({"type": "websocket.close", "code": code})
            self._authorizer.keys.used(caller, model, None)
            self._metrics.count(model, instance.label, "2xx")
        except Refused as refused:
            await reply.refuse(refused)
            self._metrics.count(UNKNOWN, NOWHERE, f"{refused.status // 100}xx")
        finally:
            self._open.pop(task, None)
            self._closed.discard(task)

    def end(self, closed: Collection[Caller]) -> None:
        """End the sessions of callers whose keys are closed."""
        for task, caller in self._open.items():
            if caller in closed:
                self._closed.add(task)
                task.cancel()

    def _admitted(self, scope: Scope, own: Mapping[bytes, bytes]) -> tuple[Caller, str]:
        """The caller and its model. Raises `Refused`."""
        if scope["path"] != REALTIME:
            raise no_websocket(scope["path"])
        model = parse_qs(scope["query_string"].decode("latin-1")).get("model", [""])[0]
        caller, model = self._authorizer.admit_session(scope, own, model)
        most = self._settings.realtime_per_key
        if Counter(self._open.values())[caller] >= most:
            raise too_many_open(most)
        return caller, model

    async def _connected(self, caller: Caller, model: str, reply: Reply) -> tuple[Any, Instance]:
        """Return a connection to the first agent that accepts one. Raises `Refused`."""
        agents = [one for one in self._authorizer.instances if one.settings.lists_models]
        if not agents:
            raise no_realtime()
        reasons = {one.label: one.reason or "not reachable" for one in agents}
        usable = sorted((one for one in agents if one.usable), key=lambda one: one.turn)
        for instance in usable:
            seconds = HANDSHAKE_SECONDS / len(usable)
            try:
                return await self._opened(instance, caller, model, reply, seconds), instance
            except NotOpenedError as error:
                reasons[instance.label] = str(error)
        raise none_healthy(model, reasons)

    async def _opened(
        self, instance: Instance, caller: Caller, model: str, reply: Reply, seconds: float
    ) -> Any:
        """Return a connection to this agent. Raises `NotOpenedError` if it does not accept in
        `seconds`."""
        client = import_module("websockets.asyncio.client")
        failures = import_module("websockets.exceptions")
        headers = {
            "authorization": f"Bearer {instance.key.decode()}",
            CALLER_HEADER.decode(): Delegation(caller.name, 1).signed(instance.key).decode(),
            "x-request-id": reply.request_id.decode(),
        }
        url = instance.address.url.replace("http", "ws", 1)
        try:
            return await client.connect(
                f"{url}{REALTIME}?model={quote(model, safe='')}",
                additional_headers=headers, compression=None, max_size=LARGEST_MESSAGE, proxy=None,
                ssl=self._tls if instance.address.tls else None,
                open_timeout=min(self._settings.first_byte_timeout, seconds),
                ping_interval=PING_SECONDS, ping_timeout=PING_SECONDS,
            )  # fmt: skip
        except failures.InvalidStatus as error:
            if error.response.status_code in (401, 403):
                raise key_refused(instance.label) from error
            reason = f"HTTP {error.response.status_code}"
        except (OSError, TimeoutError, failures.InvalidHandshake) as error:
            reason = str(error) or type(error).__name__
        log.warning("failed_over", instance=instance.label, reason=reason)
        instance.failed(reason, instance.breaker_generation)
        raise NotOpenedError(reason)

    async def _relayed(
        self,
        task: asyncio.Task[Any],
        agent: Any,
        receive: Receive,
        send: Send,
    ) -> int:
        """Pass messages on in both directions, until one side ends or the key is closed; return
        the code with which the caller's side ends.
        """
        try:
            return await _first_of(_to_agent(agent, receive), _to_caller(agent, send))
        except asyncio.CancelledError:
            if task not in self._closed:
                raise
            task.uncancel()
            return KEY_CLOSED
        finally:
            await _close(agent)


async def _unless_gone(
    opening: Coroutine[Any, Any, tuple[Any, Instance]], receive: Receive
) -> tuple[Any, Instance] | None:
    """Return the opened connection; None if the caller disconnects before, which ends it."""
    opened = asyncio.create_task(opening)
    gone = asyncio.ensure_future(receive())  # Until it is accepted, a caller can only disconnect.
    try:
        await asyncio.wait((opened, gone), return_when=asyncio.FIRST_COMPLETED)
        if not gone.done():
            return opened.result()
        if opened.done() and opened.exception() is None:
            await opened.result()[0].close()
        return None
    finally:
        for task in (opened, gone):
            task.cancel()
        await asyncio.gather(opened, gone, return_exceptions=True)


def _denying(send: Send) -> Send:
    """Wrap `send`: an HTTP response becomes the answer to the request for a WebSocket."""

    async def deny(message: Message) -> None:
        await send({**message, "type": f"websocket.{message['type']}"})

    return deny


def _accepted(scope: Scope, reply: Reply, instance: Instance, model: str) -> Message:
    offered = scope["subprotocols"]
    return {
        "type": "websocket.accept",
        "subprotocol": SUBPROTOCOL if SUBPROTOCOL in offered else None,
        "headers": [
            (b"x-request-id", reply.request_id),
            (EXPERT, model.encode()),
            (ROUTE, f"realtime session at {instance.label}".encode()),
        ],
    }


async def _first_of(*sides: Coroutine[Any, Any, int]) -> int:
    """Run both directions until one ends; return its code for the caller."""
    tasks = [asyncio.create_task(side) for side in sides]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return max(task.result() for task in done)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _close(agent: Any) -> None:
    """End the session at the agent. One that reads nothing would never let `close()` return."""
    try:
        async with asyncio.timeout(CLOSE_SECONDS):
            await agent.close()
    except TimeoutError:
        agent.transport.abort()
        await agent.wait_closed()


async def _to_agent(agent: Any, receive: Receive) -> int:
    """Pass on until the caller disconnects, or the agent takes no event in `PING_SECONDS`: its
    pings wait behind the events, so they do not notice that."""
    failures = import_module("websockets.exceptions")
    try:
        while (message := await receive())["type"] != "websocket.disconnect":
            text = message.get("text")
            async with asyncio.timeout(PING_SECONDS):
                await agent.send(message["bytes"] if text is None else text)
    except (failures.ConnectionClosed, TimeoutError):
        return AGENT_LOST
    return ENDED


async def _to_caller(agent: Any, send: Send) -> int:
    """Pass on until the agent ends the session, which the caller has not asked for."""
    failures = import_module("websockets.exceptions")
    try:
        async for data in agent:
            kind = "text" if isinstance(data, str) else "bytes"
            await send({"type": "websocket.send", kind: data})
    except failures.ConnectionClosed:
        pass
    return AGENT_LOST
