"""Run one ASGI application as a service: health, metrics, a graceful stop."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from types import FrameType
from typing import Any, NoReturn

import structlog
import uvicorn
from prometheus_client import CollectorRegistry
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from hearth.service.health import Health
from hearth.service.http_protocol import TimeoutHttpProtocol
from hearth.service.metrics import CONTENT_TYPE, render
from hearth.service.tls_listener import Certificate, TlsListener

log = structlog.get_logger()


def service_routes(health: Health, registry: CollectorRegistry) -> list[Route]:
    """Return the routes `GET /health`, `/health/live` and `/metrics`, which need no key.

    `/health` responds with 200 if the service is ready, `/health/live` always.
    """

    async def show_health(request: Request) -> Response:
        report = health.report()
        return JSONResponse(report.model_dump(mode="json"), 200 if report.ready else 503)

    async def show_live(request: Request) -> Response:
        return JSONResponse(health.report().model_dump(mode="json"))

    async def show_metrics(request: Request) -> Response:
        return Response(render(registry), media_type=CONTENT_TYPE)

    return [
        Route("/health", show_health),
        Route("/health/live", show_live),
        Route("/metrics", show_metrics),
    ]


class GracefulServer(uvicorn.Server):
    """A server that drains before it stops: after SIGTERM or SIGINT its health is not ready, and
    active requests are finished."""

    def __init__(
        self,
        config: uvicorn.Config,
        health: Health,
        *,
        on_stop: Callable[[], None] | None = None,
        certificate: Certificate | None = None,
        more: Sequence[socket.socket] = (),
    ) -> None:
        super().__init__(config)
        self.health, self.on_stop, self.certificate = health, on_stop, certificate
        self._more = more
        """Bound sockets for plain HTTP, with or without a certificate."""
        self._tls: TlsListener | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        assert sockets is not None
        self._loop = asyncio.get_running_loop()
        if self.certificate is None or self.config.ssl is None:
            await super().startup(sockets)
        else:
            await super().startup([])
            [listening] = sockets
            listening.listen(self.config.backlog)
            self._tls = TlsListener(listening, self._protocol, self.config.ssl, self.certificate)
        if not self.should_exit:
            await self._listen_to_more()
        self._log_started_message(sockets)

    async def _listen_to_more(self) -> None:
        loop, backlog = asyncio.get_running_loop(), self.config.backlog
        for one in self._more:
            self.servers.append(await loop.create_server(self._protocol, sock=one, backlog=backlog))
            host, port = one.getsockname()[:2]
            log.info("listens_with_plain_http", host=host, port=port)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._tls is not None:
            self._tls.close()
        await super().shutdown(sockets)

    def _protocol(self) -> asyncio.Protocol:
        """Return the HTTP protocol of one connection, as uvicorn itself creates it."""
        protocol = self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        assert isinstance(protocol, asyncio.Protocol)
        return protocol

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.health.draining()
        if self.on_stop is not None:
            if self._loop is None:
                self.on_stop()
            else:  # A signal can arrive in the middle of any statement, also inside asyncio.
                self._loop.call_soon_threadsafe(self.on_stop)
        super().handle_exit(sig, frame)


def serve(
    app: ASGIApp,
    *,
    host: str,
    port: int,
    health: Health,
    drain_seconds: int = 10,
    on_stop: Callable[[], None] | None = None,
    certificate: Certificate | None = None,
    http: type[asyncio.Protocol] | None = None,
    more: Sequence[tuple[str, int]] = (),
) -> None:
    """Serve an application until SIGTERM or SIGINT.

    Args:
        app: The ASGI application.
        host: Address to listen on.
        port: TCP port to listen on.
        health: Becomes not ready at the signal.
        drain_seconds: Time limit for active requests after the signal.
        on_stop: Called by the event loop after the signal, for example to end event streams.
        certificate: With it, the service uses TLS.
        http: HTTP protocol that replaces `TimeoutHttpProtocol`, without `X-Forwarded-For`.
        more: Further addresses (host, port) for plain HTTP.

    Raises:
        SystemExit: An address cannot be bound; the code is not 0.
    """
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        http=http or TimeoutHttpProtocol,
        ws=websocket if find_spec("websockets") else "none",  # type: ignore[arg-type]
        proxy_headers=http is None,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=drain_seconds,
        timeout_keep_alive=65,
        ssl_certfile=None if certificate is None else certificate.chain,
        ssl_keyfile=None if certificate is None else certificate.key,
    )
    sockets = [_bound(host, port)]
    server = GracefulServer(
        config,
        health,
        on_stop=on_stop,
        certificate=certificate,
        more=[_bound(*address) for address in more],
    )
    # uvicorn raises the captured signal again after its clean end; a clean stop exits with 0.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(server.serve(sockets))
    if not server.started:
        raise SystemExit(1)


def websocket(**options: Any) -> asyncio.Protocol:
    """Return uvicorn's protocol of one WebSocket, which is imported with the first one: 3 MB."""
    module = import_module("uvicorn.protocols.websockets.websockets_sansio_impl")
    made = module.WebSocketsSansIOProtocol(**options)
    assert isinstance(made, asyncio.Protocol)
    return made


def begin_anew() -> NoReturn:
    """Execute this process again, with the same command, environment and process id.

    The supervisor does not see a restart: Nomad delays a task that ends four times in five minutes.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)  # An ignored signal stays ignored in the new program.
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _bound(host: str, port: int) -> socket.socket:
    """Return a socket bound to this address, which does not accept connections yet.

    Binding by the event loop would resolve the address, which uses half a megabyte and threads.
    """
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        log.error("cannot_listen", host=host, port=port, reason=error.strerror)
        raise SystemExit(1) from error
    return bound
