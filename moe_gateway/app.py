"""The only place where the gateway is put together."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive, Scope, Send

from hearth.openai_api.errors import error_body
from hearth.service.health import Health
from hearth.service.metrics import new_registry
from hearth.service.server import service_routes
from hearth.service.settings import read_key, trusting
from moe_gateway.admission import Admission
from moe_gateway.callers.keyring import Keyring
from moe_gateway.callers.limits import Caller
from moe_gateway.callers.store import KeyStore
from moe_gateway.chat import HOT, HotRoutes
from moe_gateway.errors import Refused, no_key, type_of, unknown_model
from moe_gateway.instances import Instance, Watch
from moe_gateway.metrics import GatewayMetrics
from moe_gateway.relay import Reply
from moe_gateway.routing import known_models
from moe_gateway.settings import Settings
from moe_gateway.upstream.pool import Pool

OPEN: Final = frozenset(("/health", "/health/live", "/metrics"))
"""What needs no key; everything else does, also what does not exist."""


class Gateway:
    """The ASGI application: the hot routes go past FastAPI, everything else through it."""

    def __init__(self, hot: HotRoutes, rest: FastAPI, keys: Keyring) -> None:
        self.hot, self.rest, self.keys = hot, rest, keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.rest(scope, receive, send)
        elif scope["path"] in HOT:
            await self.hot(scope, receive, send)
        else:
            await self._through_fastapi(scope, receive, send)

    def drain(self) -> None:
        """From now on new requests are refused; those under way are answered."""
        self.hot.draining = True

    async def _through_fastapi(self, scope: Scope, receive: Receive, send: Send) -> None:
        reply = Reply(scope["headers"], send)
        authorization = next((v for n, v in scope["headers"] if n == b"authorization"), b"")
        caller = self.keys.caller_of(authorization)
        if scope["path"] not in OPEN and caller is None:
            await reply.refuse(no_key())
            return
        scope.setdefault("state", {})["caller"] = caller

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                spent = b"%d" % ((time.perf_counter() - reply.started_at) * 1000)
                own = [(b"x-request-id", reply.request_id), (b"openai-processing-ms", spent)]
                message = {**message, "headers": [*message["headers"], *own]}
            await send(message)

        await self.rest(scope, receive, send_with_id)


def build_app(settings: Settings, health: Health) -> Gateway:
    """The gateway of these settings; it tells `health` whether an expert is ready.

    Raises `SettingsError` when a key file or the CA cannot be read.
    """
    for path in (settings.expert_key_file, settings.agent_key_file):
        if path is not None:
            read_key(path)
    store = KeyStore(settings.key_store) if settings.key_store else None
    keys = Keyring.from_files(settings.key_files, store)
    admission: Admission[Instance] = Admission(settings.queue_per_key, settings.queue_total)
    instances: list[Instance] = []
    registry = new_registry()
    pool = Pool(settings.connect_timeout, trusting(settings.tls_ca_file))
    metrics = GatewayMetrics(registry, instances, admission)
    hot = HotRoutes(settings, keys, instances, pool, metrics, admission)
    watch = Watch(instances, pool, settings, health, left=metrics.forget, told=admission.changed)
    rest = FastAPI(
        title="moe-gateway",
        lifespan=_lifespan(watch, keys, health),
        openapi_url=None,
        exception_handlers={
            HTTPException: _show_http_error,
            RequestValidationError: _show_invalid,
            Refused: _show_refusal,
        },
    )
    rest.include_router(_catalogue_routes(watch))
    rest.router.routes.extend(service_routes(health, registry))
    return Gateway(hot, rest, keys)


def _lifespan(
    watch: Watch, keys: Keyring, health: Health
) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(watch.run()), group.create_task(keys.run())]
            health.started()
            yield
            for task in tasks:
                task.cancel()
        watch.pool.close()

    return lifespan


def _catalogue_routes(watch: Watch) -> APIRouter:
    """What there is to ask for."""
    router, instances = APIRouter(), watch.instances
    created = int(time.time())

    def described(name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": created, "owned_by": "hearth"}

    @router.get("/v1/models")
    async def models(request: Request) -> dict[str, Any]:
        """The models that can be asked now, by this caller."""
        caller: Caller = request.state.caller
        ready = [instance for instance in instances if instance.healthy]
        names = [name for name in known_models(ready) if caller.may_use(name)]
        return {"object": "list", "data": [described(name) for name in names]}

    @router.get("/v1/models/{name:path}")
    async def model(name: str) -> dict[str, Any]:
        known = known_models(instances)
        if name not in known:
            raise unknown_model(name, known)
        return described(name)

    @router.get("/api/experts")
    async def experts() -> dict[str, Any]:
        """What is there, and why it can be chosen or not."""
        return {
            "experts": [_expert(name, instances) for name in _experts(instances)],
            "others": [
                {"models": list(one.names), **one.facts()} for one in instances if not one.expert
            ],
            "consul": None if watch.consul is None else {"away": watch.consul.away},
        }

    return router


def _experts(instances: Sequence[Instance]) -> list[str]:
    return list(dict.fromkeys(one.expert for one in instances if one.expert is not None))


def _expert(name: str, instances: Sequence[Instance]) -> dict[str, Any]:
    """One expert with its instances; what they can do is said for the first."""
    own = [one for one in instances if one.expert == name]
    first = next((one for one in own if one.healthy), own[0])
    return {
        "name": name,
        "aliases": [alias for alias in first.names if alias != name],
        "model": first.model,
        "model_reason": first.model_reason,
        "healthy": first.healthy,
        "reason": first.reason,
        "auto": first.healthy,
        "cost": first.cost,
        "context": first.context,
        "tools": first.tools,
        "vision": first.vision,
        "embeddings": first.embeddings,
        "instances": [one.facts() for one in own],
    }


async def _show_refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    headers = {name.decode(): value.decode() for name, value in error.headers}
    return Response(error.body(), error.status, headers, "application/json")


async def _show_http_error(request: Request, error: Exception) -> Response:
    """404 and 405 of paths that are not there."""
    assert isinstance(error, HTTPException)
    status = error.status_code
    message = f"{request.method} {request.url.path[:200]}: {error.detail}."
    body = error_body(message, type=type_of(status), code="not_found" if status == 404 else None)
    return JSONResponse(body, status, error.headers)


async def _show_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    problem = error.errors()[0]
    param = ".".join(str(part) for part in problem["loc"])
    body = error_body(f"{param}: {problem['msg']}.", type=type_of(422), param=param)
    return JSONResponse(body, 422)
