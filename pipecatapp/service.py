"""The agent as a service: from its settings until SIGTERM, and again after a restore."""

import gc
import sys

import structlog

from hearth.service.health import Health
from hearth.service.logs import configure_logs
from hearth.service.metrics import new_registry
from hearth.service.names import PIPECATAPP
from hearth.service.server import begin_anew, serve
from hearth.service.settings import SettingsError
from hearth.service.version import hearth_version
from pipecatapp.api.parts import Stop
from pipecatapp.app import build_app
from pipecatapp.settings import Settings


def main() -> None:
    """Read the settings and serve; an error at the start is printed as one sentence, exit code
    1."""
    configure_logs(PIPECATAPP)
    stop = Stop()
    health = Health(PIPECATAPP, version=hearth_version())
    try:
        settings = Settings.load()
        certificate = settings.certificate
        app = build_app(settings, health=health, registry=new_registry(), stop=stop)
    except SettingsError as error:
        structlog.get_logger().error("start_refused", reason=str(error))
        sys.exit(1)
    # A garbage collection holds the GIL: over all modules it takes a tenth of a second.
    gc.freeze()
    gc.enable()
    serve(
        app,
        host=settings.host,
        port=settings.port,
        health=health,
        drain_seconds=settings.drain_seconds,
        on_stop=stop,
        certificate=certificate,
    )
    if stop.restarts:
        begin_anew()
