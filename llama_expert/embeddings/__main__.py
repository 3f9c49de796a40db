"""`python -m llama_expert.embeddings`: serve the default expert for embeddings until SIGTERM."""

import signal
import sys

from hearth.process.parent_death import end_with_parent
from hearth.service.health import Health
from hearth.service.logs import configure_logs
from hearth.service.metrics import new_registry
from hearth.service.names import EMBEDDINGS
from hearth.service.server import serve
from hearth.service.settings import SettingsError
from hearth.service.version import hearth_version
from llama_expert.embeddings.app import build_app, check
from llama_expert.embeddings.settings import Settings
from llama_expert.job import EngineMissing


def main() -> None:
    """Exit code 1 and one sentence if the settings are wrong or the package is missing."""
    end_with_parent(signal.SIGTERM)
    try:
        check()
        settings = Settings.load()
        configure_logs(EMBEDDINGS)
        health = Health(EMBEDDINGS, version=hearth_version())
        app = build_app(settings, health, new_registry())
    except (SettingsError, EngineMissing) as error:
        sys.exit(str(error))
    serve(
        app,
        host=settings.host,
        port=settings.port,
        health=health,
        drain_seconds=settings.drain_seconds,
    )


if __name__ == "__main__":
    main()
