"""`python -m llama_expert`: run one expert with its settings."""

import asyncio
import signal
import sys

from hearth.models.catalogue import Catalogue
from hearth.models.errors import ModelError
from hearth.process.parent_death import end_with_parent
from hearth.service.logs import configure_logs
from hearth.service.names import expert_service
from hearth.service.settings import SettingsError
from llama_expert.job import EngineMissing
from llama_expert.launcher import ExpertFailed, Launcher
from llama_expert.settings import Settings


async def run(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await Launcher(settings, Catalogue.load(settings.catalogue)).run(stop)


def main() -> None:
    """Exit code 0 after a signal; 1 and one sentence when there is nothing to serve."""
    end_with_parent(signal.SIGTERM)
    try:
        settings = Settings.load()
        configure_logs(expert_service(settings.name))
        asyncio.run(run(settings))
    except (SettingsError, ModelError, EngineMissing, ExpertFailed) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
