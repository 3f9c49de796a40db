"""Run one ASGI application as a service: health, metrics, a graceful stop."""

import asyncio
import signal
from collections.abc import Callable
from types import FrameType

import uvicorn
from prometheus_client import CollectorRegistry
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from hearth.service.health import Health
from hearth.service.metrics import CONTENT_TYPE, render


def service_routes(health: Health, registry: CollectorRegistry) -> list[Route]:
    """`GET /health` and `GET /metrics`, which every service has and which need no key."""

    async def show_health(request: Request) -> Response:
        report = health.report()
        return JSONResponse(report.model_dump(mode="json"), 200 if report.ready else 503)

    async def show_metrics(request: Request) -> Response:
        return Response(render(registry), media_type=CONTENT_TYPE)

    return [Route("/health", show_health), Route("/metrics", show_metrics)]


class GracefulServer(uvicorn.Server):
    """Drains before it ends: SIGTERM or SIGINT first makes the service say that it is stopping."""

    def __init__(
        self, config: uvicorn.Config, health: Health, on_stop: Callable[[], None] | None = None
    ) -> None:
        super().__init__(config)
        self.health, self.on_stop = health, on_stop

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.health.draining()
        if self.on_stop is not None:
            self.on_stop()
        super().handle_exit(sig, frame)


def serve(
    app: ASGIApp,
    *,
    host: str,
    port: int,
    health: Health,
    drain_seconds: int = 10,
    on_stop: Callable[[], None] | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, then finish what is under way within `drain_seconds`.

    `on_stop` is called at the signal, so that endless answers (event streams) can end themselves.
    Raises `SystemExit` with another code than 0 when the address cannot be bound.
    """
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=drain_seconds,
        timeout_keep_alive=65,
    )
    server = GracefulServer(config, health, on_stop)
    # uvicorn raises the captured signal again after its clean end; a clean stop exits with 0.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(server.serve())
    if not server.started:
        raise SystemExit(1)
