"""One speech service: its routes, and its engine from loaded and warm to ended."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import structlog
from fastapi import APIRouter, FastAPI
from prometheus_client import CollectorRegistry

from hearth.service.health import Health
from hearth.service.http_errors import BearerKeys, BodyLimit, add_error_handlers
from hearth.service.server import service_routes
from hearth.service.settings import read_key
from hearth.service.version import hearth_version
from speech.api import models, synthesis, transcriptions
from speech.api.answers import refusal_of
from speech.duty import Ears, Mouth
from speech.engines.choice import hearing, speaking
from speech.engines.hearing import Hearing
from speech.engines.speaking import Speaking
from speech.errors import EngineFailed, SpeechError
from speech.metrics import SpeechMetrics
from speech.settings import Settings

log = structlog.get_logger()


def build_app(settings: Settings, health: Health, registry: CollectorRegistry) -> FastAPI:
    """Build the application of one duty; it is ready when its engine has answered once.

    Raises `SettingsError` and `ModelError` for a configuration that cannot work.
    """
    keys = BearerKeys([read_key(path) for path in settings.key_files])
    metrics = SpeechMetrics(registry, settings.duty)
    if settings.duty == "stt":
        ears = Ears(hearing(settings, metrics), metrics, settings.max_waiting, settings.language)
        return _app(settings, health, registry, ears.engine, transcriptions.router, keys, ears=ears)
    mouth = Mouth(speaking(settings, metrics), metrics, settings.max_waiting)
    return _app(settings, health, registry, mouth.engine, synthesis.router, keys, mouth=mouth)


def _app(
    settings: Settings,
    health: Health,
    registry: CollectorRegistry,
    engine: Hearing | Speaking,
    router: APIRouter,
    keys: BearerKeys,
    **duty: Any,
) -> FastAPI:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        opening = asyncio.create_task(opened(engine, health))
        yield
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
        await engine.close()

    app = FastAPI(
        title="Hearth speech", version=hearth_version(), lifespan=lifespan,
        openapi_url=None, docs_url=None, redoc_url=None,
    )  # fmt: skip
    for name, part in {"settings": settings, "health": health, "keys": keys, **duty}.items():
        setattr(app.state, name, part)
    # `include_router` would make each route once more, at the first request after the start.
    app.router.routes.extend(
        [*router.routes, *models.router.routes, *service_routes(health, registry)]
    )
    app.add_middleware(BodyLimit, limit=settings.max_body_bytes, setting="SPEECH_MAX_BODY_BYTES")
    add_error_handlers(app, {SpeechError: refusal_of})
    return app


async def opened(engine: Hearing | Speaking, health: Health) -> None:
    """Load the engine; the service is ready afterwards, or reports why it cannot be."""
    try:
        await engine.open()
    except EngineFailed as error:
        log.error("engine_failed", engine=engine.name, reason=str(error))
        health.not_ready("start", str(error))
    else:
        log.info("engine_ready", engine=engine.name)
        health.started()
