"""The agent service: the engine behind its HTTP interface."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import structlog
from fastapi import Depends, FastAPI
from prometheus_client import CollectorRegistry

from hearth.service.health import Health
from hearth.service.logs import lasting
from hearth.service.metrics import new_registry
from hearth.service.names import PIPECATAPP
from hearth.service.server import service_routes
from hearth.service.state import StateDir
from hearth.service.version import hearth_version
from pipecatapp.api import conversations, events, plan, runs, session, status, workflows
from pipecatapp.api.access import Access
from pipecatapp.api.documents import layers, texts, tools
from pipecatapp.api.edge import Edge
from pipecatapp.api.errors import answer_errors_as_openai, sound_json
from pipecatapp.api.library import importing, projects, prompts, schedules, tasks
from pipecatapp.api.mcp.endpoint import McpEndpoint, mcp_route
from pipecatapp.api.openai import chat, models
from pipecatapp.api.parts import Parts, Stop
from pipecatapp.api.state import backup, errands, logs
from pipecatapp.api.static import static_routes
from pipecatapp.api.voice import choices
from pipecatapp.api.voice import socket as voice
from pipecatapp.api.voice.runner import forget_left
from pipecatapp.api.voice.satellites import open_satellites
from pipecatapp.api.voice.trust import trust_routes
from pipecatapp.archive import apply_staged
from pipecatapp.library.claim import outwait
from pipecatapp.metrics import RunMetrics
from pipecatapp.settings import Settings
from pipecatapp.tools.code.elsewhere.errands import Errands
from pipecatapp.tools.model.facts import ExpertFacts
from pipecatapp.voice.metrics import VoiceMetrics
from pipecatapp.voice.studio import Studio
from pipecatapp.wiring import caller_keys, open_engine, studio_of
from pipecatapp.workflow import LedgerFailed

log = structlog.get_logger()

STATIC: Final = Path(__file__).parent / "static"
RESUME_PATIENCE: Final = 120.0
"""Seconds that the gateway and its experts get to come up before unfinished runs go on."""
ROUTERS: Final = (
    chat.router,
    models.router,
    session.router,
    runs.router,
    events.router,
    workflows.router,
    texts.router,
    layers.router,
    tools.router,
    plan.router,
    status.router,
    conversations.router,
    schedules.router,
    importing.router,
    prompts.router,
    tasks.router,
    projects.router,
    backup.router,
    voice.router,
    choices.router,
    errands.router,
    logs.router,
)


def build_app(
    settings: Settings,
    *,
    health: Health | None = None,
    registry: CollectorRegistry | None = None,
    stop: Stop | None = None,
    static: Path = STATIC,
) -> FastAPI:
    """Everything that is served. The ledger is opened, and its lease held, from start to stop.

    Raises `SettingsError` when a key file is missing.
    """
    health = health or Health(PIPECATAPP, version=hearth_version())
    registry = registry or new_registry()
    stop = stop or Stop()
    metrics, voice_metrics = RunMetrics(registry), VoiceMetrics(registry)
    mcp = McpEndpoint(max_body_bytes=settings.max_body_bytes)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        stop.bind()
        await outwait(settings.state.ledger)
        restore_staged(settings.state)
        async with open_engine(settings) as assembly:
            metrics.expect(
                [*assembly.runs.engine.workflows, "document"], [*assembly.runs.engine.tools]
            )
            parts = Parts(assembly.runs, assembly.directory, metrics, stop, assembly.schedules)
            app.state.parts = parts
            parts.spawn(resume(parts, assembly.facts))
            parts.spawn(lasting(parts.starter.run))
            app.state.studio = studio = studio_of(settings, assembly.directory, voice_metrics)
            async with talking(settings, studio, parts), mcp.serving():
                health.started()
                yield
                await parts.drain(settings.drain_seconds)

    app = FastAPI(
        title="Hearth agent",
        version=hearth_version(),
        lifespan=lifespan,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        dependencies=[Depends(sound_json)],
    )
    app.state.access = Access(caller_keys(settings), public_origin=settings.public_origin)
    app.state.directory = settings.state
    app.state.errands = Errands(settings.errands)
    app.add_middleware(Edge, max_body_bytes=settings.max_body_bytes)
    answer_errors_as_openai(app)
    for router in ROUTERS:
        app.include_router(router)
    app.router.routes.extend(
        [
            *service_routes(health, registry),
            mcp_route(mcp),
            *static_routes(static),
            *trust_routes(settings.tls_ca_file),
        ]
    )
    return app


@asynccontextmanager
async def talking(settings: Settings, studio: Studio, parts: Parts) -> AsyncIterator[None]:
    """People can talk with the agent inside the block, in browsers and through satellites."""
    parts.spawn(studio.open())
    try:
        satellites = await open_satellites(settings, studio, parts)
        try:
            yield
        finally:
            await satellites.close()
    finally:
        await studio.close()


def restore_staged(state: StateDir) -> None:
    """Become what a restore has left for this start. Raises `LedgerBusy` and `LedgerFailed`."""
    try:
        archive = apply_staged(state)
    except OSError as error:
        raise LedgerFailed(f"{state.root} cannot be used: {error.strerror}.") from error
    if archive is not None:
        log.warning("restored", id=archive.id, created=archive.created.isoformat())


async def resume(parts: Parts, facts: ExpertFacts) -> None:
    """Go on with the runs that the last stop, or a crash, left unfinished.

    After a power failure everything starts at once, and this service is the quickest: a run that
    went on before a model can answer would fail, so the others get a time to come up.
    """
    await forget_left(parts)
    if not parts.runs.unfinished():
        return
    if not await facts.wait_for_an_expert(RESUME_PATIENCE):
        log.warning("resumed_without_expert", waited_seconds=RESUME_PATIENCE)
    for run in await parts.runs.engine.resume_unfinished():
        log.info("run_resumed", run=run)
        parts.watch(run)
