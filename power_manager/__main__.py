"""`python -m power_manager`: serve until SIGTERM."""

import sys

from hearth.service.health import Health
from hearth.service.logs import configure_logs
from hearth.service.metrics import new_registry
from hearth.service.names import POWER_MANAGER
from hearth.service.server import serve
from hearth.service.settings import SettingsError
from hearth.service.version import hearth_version
from power_manager.app import build_app
from power_manager.settings import Settings


def main() -> None:
    """Exit with code 1 and one sentence if the settings are not valid."""
    try:
        settings = Settings.load()
        configure_logs(POWER_MANAGER)
        health = Health(POWER_MANAGER, version=hearth_version())
        certificate = settings.certificate
        app = build_app(settings, health, new_registry())
    except SettingsError as error:
        sys.exit(str(error))
    serve(
        app,
        host=settings.host,
        port=settings.port,
        health=health,
        drain_seconds=settings.drain_seconds,
        certificate=certificate,
    )


if __name__ == "__main__":
    main()
