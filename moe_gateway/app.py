"""Composition root of the gateway."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from importlib import import_module
from typing import Final

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.types import Message, Receive, Scope, Send

from hearth.service.health import Health
from hearth.service.http_errors import BodyLimit, add_error_handlers
from hearth.service.metrics import new_registry
from hearth.service.server import service_routes
from hearth.service.settings import SettingsError, read_key, trusting
from moe_gateway.api.anthropic.routes import count_routes
from moe_gateway.api.keys import key_routes, own_key_routes
from moe_gateway.api.models import model_routes
from moe_gateway.api.ollama.routes import PATHS as OLLAMA_PATHS
from moe_gateway.api.ollama.routes import ollama_routes
from moe_gateway.api.openapi import document
from moe_gateway.api.realtime import Realtime
from moe_gateway.api.replies import refusal_of, replies_of
from moe_gateway.endpoints import FAST_PATHS
from moe_gateway.errors import MAX_BODY, keys_unreadable, no_key
from moe_gateway.http.cors import Cors
from moe_gateway.http.deadlines import Deadlines
from moe_gateway.http.headers import request_id
from moe_gateway.http.pool import Pool
from moe_gateway.keys.keyring import Keyring
from moe_gateway.keys.limits import Caller
from moe_gateway.keys.store import KeyStore
from moe_gateway.requests.account import Traces
from moe_gateway.requests.authorize import Authorizer
from moe_gateway.requests.metrics import ConsulCollector, GatewayMetrics
from moe_gateway.requests.pipeline import FastPath
from moe_gateway.requests.reply import BY_ITSELF, Reply
from moe_gateway.requests.timeouts import end_closed
from moe_gateway.responses.routes import response_routes
from moe_gateway.responses.store import ResponseStore
from moe_gateway.routing.admission import Admission, Circuit
from moe_gateway.routing.classifier import Classifier
from moe_gateway.routing.holding import Holding
from moe_gateway.routing.instances import Instance, Watch
from moe_gateway.settings import Settings

OPEN: Final = frozenset(("/health", "/health/live", "/metrics"))
"""Paths that need no key; all other paths need one, even if they do not exist."""

WHERE: Final = (
    "OpenAI's API is at /v1: does your base URL end with it, once? /openapi.json has every path."
)
"""A hint for the most common mistake in the configuration of a client."""

TIDIED: Final = frozenset(
    (
        *(*FAST_PATHS, *OPEN, *OLLAMA_PATHS),
        *("/v1/models", "/api/experts", "/api/keys", "/openapi.json"),
    )
)
"""Paths that are also accepted with repeated slashes: a base URL that ends with a slash and a
path that begins with one give `//v1/…`."""


class Gateway:
    """The ASGI application: the fast path bypasses FastAPI, everything else through it."""

    def __init__(
        self,
        fast: FastPath,
        rest: FastAPI,
        keys: Keyring,
        realtime: Realtime,
        origins: Collection[str] = (),
    ) -> None:
        """`origins`: web origins that may call; empty: none."""
        self.fast, self.rest, self.keys, self.realtime = fast, rest, keys, realtime
        self._cors = Cors(origins) if origins else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self.realtime(scope, receive, send)
            return
        if scope["type"] != "http":
            await self.rest(scope, receive, send)
            return
        if self._cors is not None:
            reply = Reply(request_id(dict(scope["headers"])), send)
            if await self._cors.answered(scope, _with_id(reply, send)):
                return
            send = self._cors.sender(scope, send)
        if scope["path"] not in FAST_PATHS:
            scope = _tidy(scope)
        if scope["path"] in FAST_PATHS:
            await self.fast(scope, receive, send)
        else:
            await self._through_fastapi(scope, receive, send)

    def drain(self) -> None:
        """From now on new requests are refused; those under way are answered."""
        self.fast.authorizer.draining = True

    async def _through_fastapi(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        reply = refusal_of(scope["path"])(request_id(headers), send)
        caller = self.fast.authorizer.listeners.caller_of(scope, headers)
        if scope["path"] not in OPEN and caller is None:
            await reply.refuse(no_key())
            return
        scope.setdefault("state", {})["caller"] = caller
        await self.rest(scope, receive, _with_id(reply, send))


def _tidy(scope: Scope) -> Scope:
    """The same without needless slashes."""
    path = "/" + "/".join(part for part in scope["path"].split("/") if part)
    return {**scope, "path": path} if path in TIDIED and path != scope["path"] else scope


def _with_id(reply: Reply, send: Send) -> Send:
    """Wrap `send` to add the headers that every response has."""

    async def send_with_id(message: Message) -> None:
        if message["type"] == "http.response.start":
            spent = b"%d" % ((time.perf_counter() - reply.started_at) * 1000)
            own = [
                (b"x-request-id", reply.request_id),
                (b"openai-processing-ms", spent),
                *BY_ITSELF,
            ]
            message = {**message, "headers": [*message["headers"], *own]}
        await send(message)

    return send_with_id


def build_app(settings: Settings, health: Health) -> Gateway:
    """Build the gateway with these settings; it sets in `health` whether an expert is ready.

    Raises `SettingsError` when a key file or the CA cannot be read.
    """
    _check_key_files(settings)
    store = KeyStore(settings.key_store) if settings.key_store else None
    keys = Keyring.from_files(settings.key_files, store)
    admission: Admission[Instance] = Admission(settings.queue_per_key, settings.queue_total)
    instances: list[Instance] = []
    registry = new_registry()
    tls = None if settings.tls_ca_file is None else trusting(settings.tls_ca_file)
    pool = Pool(settings.connect_timeout, tls)
    metrics = GatewayMetrics(registry, instances, admission, keys)
    responses = _responses(settings)
    authorizer = Authorizer(settings, keys, instances)
    realtime = Realtime(settings, authorizer, metrics, tls)
    keys.closed = partial(_close, pool.deadlines, responses, realtime)
    classifier = _classifier(settings, instances, pool, admission)
    traces = _traces(settings)
    fast = FastPath(
        settings,
        authorizer,
        replies_of(responses, instances),
        pool,
        metrics,
        admission,
        classifier,
        traces,
    )
    watch = Watch(instances, pool, settings, health, left=metrics.forget, told=admission.changed)
    if (consul := watch.consul) is not None:
        registry.register(ConsulCollector(lambda: consul.away))
    holding = Holding(settings, pool, instances) if settings.power_url else None
    rest = FastAPI(
        title="moe-gateway",
        lifespan=_lifespan(watch, keys, responses, health, traces, holding),
        openapi_url=None,
    )
    # A `SettingsError` during a request means that the file of the keys is locked or damaged.
    add_error_handlers(
        rest,
        {SettingsError: lambda error: keys_unreadable(str(error))},
        unknown_path_hint=WHERE,
    )
    rest.add_middleware(BodyLimit, limit=settings.max_body_bytes, setting=MAX_BODY)
    # `include_router` would make each route once more, at the first request after the start.
    for router in (
        model_routes(watch, authorizer.scope_of),
        own_key_routes(lambda: [one.key for one in instances if one.settings.lists_models]),
        key_routes(store, keys),
        response_routes(responses),
        count_routes(),
        ollama_routes(instances, authorizer.scope_of),
    ):
        rest.router.routes.extend(router.routes)
    rest.router.routes.extend(service_routes(health, registry))
    rest.add_route("/openapi.json", _shown(rest, health.version), include_in_schema=False)
    return Gateway(fast, rest, keys, realtime, settings.cors_origins)


def _check_key_files(settings: Settings) -> None:
    """Raises `SettingsError` when a key file of the servers cannot be read."""
    for path in (settings.expert_key_file, settings.agent_key_file, settings.speech_key_file):
        if path is not None:
            read_key(path)


def _responses(settings: Settings) -> ResponseStore:
    return ResponseStore(
        settings.responses_seconds,
        settings.responses_per_key,
        settings.responses_bytes_per_key,
        settings.responses_bytes,
    )


def _close(
    deadlines: Deadlines,
    responses: ResponseStore,
    realtime: Realtime,
    closed: Collection[Caller],
) -> None:
    """Keys are closed: end what is under way for them, and forget their responses."""
    end_closed(deadlines, closed)
    realtime.end(closed)
    responses.forget(closed)


def _classifier(
    settings: Settings, instances: list[Instance], pool: Pool, admission: Admission[Instance]
) -> Classifier | None:
    name, seconds = settings.classifier, settings.classifier_seconds
    if name is None:
        return None
    circuit = Circuit(settings.circuit_failures, settings.circuit_seconds)
    return Classifier(name, settings.domains, seconds, instances, pool, admission, circuit)


def _traces(settings: Settings) -> Traces | None:
    """Import the library only if traces are enabled: it takes a second and 20 MB."""
    if settings.traces_url is None:
        return None
    try:
        module = import_module("moe_gateway.requests.traces")
    except ModuleNotFoundError as error:
        message = f"MOE_GATEWAY_TRACES_URL needs hearth[tracing] ({error})."
        raise SettingsError(message) from error
    traces: Traces = module.Traces(str(settings.traces_url), settings.tls_ca_file)
    return traces


def _shown(rest: FastAPI, version: str) -> Callable[[Request], Awaitable[Response]]:
    async def show(request: Request) -> Response:
        return JSONResponse(document(rest, version))

    return show


def _lifespan(
    watch: Watch,
    keys: Keyring,
    responses: ResponseStore,
    health: Health,
    traces: Traces | None,
    holding: Holding | None,
) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            lasting = [watch.run(), keys.run(), responses.run()]
            if holding is not None:
                lasting.append(holding.run())
            tasks = [group.create_task(one) for one in lasting]
            health.started()
            yield
            for task in tasks:
                task.cancel()
        watch.pool.close()
        if traces is not None:
            await asyncio.to_thread(traces.close)

    return lifespan
