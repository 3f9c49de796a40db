"""The agent service: the engine behind its HTTP interface."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Final

import structlog
from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from hearth.service.health import Health
from hearth.service.logs import lasting
from hearth.service.metrics import new_registry
from hearth.service.names import PIPECATAPP
from hearth.service.server import service_routes
from hearth.service.settings import trusting
from hearth.service.state import StateDir
from hearth.service.version import hearth_version
from pipecatapp.api import (
    chat_models,
    conversations,
    events,
    home,
    plan,
    run_files,
    runs,
    session,
    status,
    workflows,
)
from pipecatapp.api.access import Access
from pipecatapp.api.documents import drafts, layers, texts, tools
from pipecatapp.api.edge import Edge
from pipecatapp.api.errors import answer_errors_as_openai
from pipecatapp.api.library import (
    bundles,
    code_memory,
    evolution,
    fixes,
    importing,
    knowledge,
    notes,
    projects,
    prompts,
    schedules,
    tasks,
    triggers,
)
from pipecatapp.api.mcp.callers import Callers
from pipecatapp.api.mcp.endpoint import McpEndpoint, mcp_routes
from pipecatapp.api.openai import chat, completions, models
from pipecatapp.api.parts import Parts, Stop
from pipecatapp.api.state import backup, errands, keys, logs, machines
from pipecatapp.api.state import models as local_models
from pipecatapp.api.static import static_routes
from pipecatapp.api.voice import choices, realtime, speech
from pipecatapp.api.voice import socket as voice
from pipecatapp.api.voice.runner import forget_left
from pipecatapp.api.voice.satellites import open_satellites
from pipecatapp.api.voice.trust import trust_routes
from pipecatapp.application.backup import apply_staged
from pipecatapp.application.container import Container, caller_keys, open_container
from pipecatapp.application.engine import LedgerFailed, outwait
from pipecatapp.application.library.campaigns import CampaignRunner
from pipecatapp.application.models import ModelService
from pipecatapp.application.remote_jobs import Errands
from pipecatapp.application.triggers.folders import FolderWatch
from pipecatapp.metrics import RunMetrics
from pipecatapp.settings import Settings
from pipecatapp.voice.metrics import VoiceMetrics
from pipecatapp.voice.opening import studio_of
from pipecatapp.voice.studio import Studio

log = structlog.get_logger()

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]
STATIC: Final = Path(__file__).parent / "static"
ROUTERS: Final = (
    chat.router,
    completions.router,
    models.router,
    session.router,
    runs.router,
    events.router,
    run_files.router,
    run_files.uploads,
    workflows.router,
    texts.router,
    drafts.router,
    layers.router,
    tools.router,
    plan.router,
    status.router,
    conversations.router,
    chat_models.router,
    notes.router,
    knowledge.router,
    fixes.router,
    code_memory.router,
    schedules.router,
    triggers.router,
    triggers.hooks,
    importing.router,
    bundles.router,
    prompts.router,
    evolution.router,
    tasks.router,
    projects.router,
    backup.router,
    voice.router,
    realtime.router,
    choices.router,
    speech.router,
    errands.router,
    logs.router,
    local_models.router,
    keys.router,
    machines.router,
    home.router,
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
    mcp = McpEndpoint(
        max_body_bytes=settings.max_body_bytes,
        callers=Callers(trusting(settings.tls_ca_file)),
        public_origin=settings.public_origin,
    )

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        stop.bind()
        await outwait(settings.state.ledger)
        restore_staged(settings.state)
        async with open_container(settings) as container:
            metrics.expect(
                [*container.runs.engine.workflows, "document"], [*container.runs.engine.tools]
            )
            parts = parts_with(container, metrics, stop)
            app.state.parts = parts
            container.runs.engine.ledger.on_full = report_full_disk(health, settings.state)
            parts.spawn(resume(parts))
            parts.spawn(lasting(parts.starter.run))
            parts.spawn(lasting(FolderWatch(parts.triggers, parts.runs).run))
            parts.spawn(container.knowledge.indexer.watch(settings.knowledge_seconds))
            app.state.model_client = container.client
            app.state.studio = studio = studio_of(settings, container.directory, voice_metrics)
            async with talking(settings, studio, parts), mcp.serving():
                health.started()
                yield
                app.state.models.close()
                await app.state.campaigns.close()
                await parts.drain(settings.drain_seconds)

    app = _routes(settings, lifespan, caller_keys(settings))
    app.router.routes.extend(
        [
            *service_routes(health, registry),
            *mcp_routes(mcp),
            *static_routes(static),
            *trust_routes(settings.tls_ca_file),
        ]
    )
    return app


def build_command_app(settings: Settings, key: str) -> FastAPI:
    """Build the same routes for one command of this process, which sends `key`.

    Nothing starts by itself: no voice, no schedules, no unfinished runs of another process. The
    end of its lifespan waits for the runs that were started, unless there was an error.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with open_container(settings) as container:
            parts = parts_with(container, RunMetrics(new_registry()), Stop())
            app.state.parts = parts
            try:
                yield
                await app.state.campaigns.close()
                await parts.all_ended()
            finally:
                await parts.drain(0)

    return _routes(settings, lifespan, [key])


def parts_with(container: Container, metrics: RunMetrics, stop: Stop) -> Parts:
    """Return the parts of an application on an open engine."""
    return Parts(
        container.runs,
        container.directory,
        metrics,
        stop,
        container.schedules,
        container.triggers,
        container.home,
        container.knowledge,
    )


def _routes(settings: Settings, lifespan: Lifespan, keys: Sequence[str]) -> FastAPI:
    """Build the routes of the API, which `keys` open."""
    app = FastAPI(
        title="Hearth agent",
        version=hearth_version(),
        lifespan=lifespan,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
    )
    app.state.access = Access(keys, public_origin=settings.public_origin)
    app.state.directory = settings.state
    app.state.errands = Errands(settings.errands)
    local = settings.consul_url is None
    app.state.models = ModelService(settings.state, settings.catalogue, local=local)
    app.state.campaigns = CampaignRunner(
        settings.state_dir, key=keys[-1], ca_file=settings.tls_ca_file
    )
    app.state.own_url = settings.code_url and settings.own_url
    app.add_middleware(Edge, max_body_bytes=settings.max_body_bytes)
    answer_errors_as_openai(app)
    for router in ROUTERS:
        app.router.routes.extend(router.routes)
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


def report_full_disk(health: Health, state: StateDir) -> Callable[[bool], None]:
    """Return what a ledger calls when its disk is full, and when there is room again."""

    def report(full: bool) -> None:  # noqa: FBT001 (a callback of one fact)
        if full:
            health.not_ready(
                "disk",
                f"the disk of {state.root} is full: runs are paused until there is room",
            )
        else:
            health.ready_again("disk")

    return report


def restore_staged(state: StateDir) -> None:
    """Become what a restore has left for this start. Raises `LedgerBusy` and `LedgerFailed`."""
    try:
        archive = apply_staged(state)
    except OSError as error:
        raise LedgerFailed(f"{state.root} cannot be used: {error.strerror}.") from error
    if archive is not None:
        log.warning("restored", id=archive.id, created=archive.created.isoformat())


async def resume(parts: Parts) -> None:
    """Resume the runs that the last stop, or a crash, left unfinished.

    After a power failure all services start together, and this one is ready first: steps that call
    a model wait until it is ready or a time has passed (`ExpertFacts.ready`).
    """
    await forget_left(parts)
    for run in await parts.runs.engine.resume_unfinished():
        log.info("run_resumed", run=run)
        parts.watch(run)
