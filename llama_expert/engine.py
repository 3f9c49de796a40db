"""`python -m llama_expert.engine MODEL [WORKER…]`: the process in which one engine serves a model.

The launcher starts and supervises it. If a model crashes this process, the launcher continues and
tries the next model of the list.
"""

import signal
import sys
from collections.abc import Sequence

import structlog

from hearth.models.catalogue import Catalogue
from hearth.process.parent_death import end_with_parent
from hearth.service.logs import configure_logs
from hearth.service.names import expert_service
from llama_expert.engines import llama_cpp_python, llama_server, xllamacpp
from llama_expert.job import EngineFailed, EngineMissing, Job
from llama_expert.settings import Settings

log = structlog.get_logger()


def check(settings: Settings) -> None:
    """Raise `EngineMissing`, with the packages to install, if the engine cannot run here."""
    match settings.engine:
        case "xllamacpp":
            xllamacpp.check()
        case "llama-cpp-python":
            llama_cpp_python.check()
        case "llama-server":
            llama_server.check(settings.llama_server_binary)


def serve(settings: Settings, model: str, workers: Sequence[str]) -> None:
    """Serve the model until a signal ends it; `EngineFailed` when it cannot be loaded."""
    job = Job.of(settings, Catalogue.load(settings.catalogue)[model], workers)
    match settings.engine:
        case "xllamacpp":
            xllamacpp.serve(job)
        case "llama-cpp-python":
            llama_cpp_python.serve(job)
        case "llama-server":
            llama_server.serve(job)


def main() -> None:
    """Serve the model that the launcher names, and end when the launcher ends."""
    # SIGKILL: an engine has nothing to save, and its successor needs the port.
    end_with_parent(signal.SIGKILL)
    settings = Settings.load()
    configure_logs(expert_service(settings.name))
    try:
        serve(settings, sys.argv[1], sys.argv[2:])
    except (EngineFailed, EngineMissing) as error:
        log.error("engine_failed", engine=settings.engine, reason=str(error))
        sys.exit(1)


if __name__ == "__main__":
    main()
