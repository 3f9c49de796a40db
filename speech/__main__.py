"""`python -m speech`: serve one duty until SIGTERM."""

import sys

from hearth.models.errors import ModelError
from hearth.service.health import Health
from hearth.service.logs import configure_logs
from hearth.service.metrics import new_registry
from hearth.service.server import serve
from hearth.service.settings import SettingsError
from hearth.service.version import hearth_version
from speech.app import build_app
from speech.settings import Settings


def main() -> None:
    """Exit code 1 and one sentence when the settings are wrong or the model is not here."""
    try:
        settings = Settings.load()
        configure_logs(settings.name)
        health = Health(settings.name, version=hearth_version())
        certificate = settings.certificate
        app = build_app(settings, health, new_registry())
    except (SettingsError, ModelError) as error:
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
