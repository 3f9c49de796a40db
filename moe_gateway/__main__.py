"""`python -m moe_gateway`: run the gateway with its settings."""

import gc
import sys

from hearth.service.health import Health
from hearth.service.logs import configure_logs
from hearth.service.names import MOE_GATEWAY
from hearth.service.server import serve
from hearth.service.settings import SettingsError
from hearth.service.version import hearth_version
from moe_gateway.app import build_app
from moe_gateway.http.server import CorkedProtocol
from moe_gateway.settings import Settings


def main() -> None:
    """Serve until SIGTERM; exit code 1 and one sentence when the settings are wrong."""
    configure_logs(MOE_GATEWAY)
    # FastAPI would load it to see that no model is one of pydantic 1's: 2 MB.
    sys.modules.setdefault("pydantic.v1", None)  # type: ignore[arg-type]
    health = Health(MOE_GATEWAY, version=hearth_version())
    try:
        settings = Settings.load()
        certificate = settings.certificate
        app = build_app(settings, health)
    except SettingsError as error:
        sys.exit(str(error))
    # Objects of the start are permanent; those of requests are mostly freed by reference counting.
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    serve(
        app,
        host=str(settings.host),
        port=settings.port,
        health=health,
        drain_seconds=settings.drain_seconds,
        on_stop=app.drain,
        certificate=certificate,
        http=CorkedProtocol,
        more=[(str(one.host), one.port) for one in settings.listeners],
    )


if __name__ == "__main__":
    main()
