"""The server of the package `llama-cpp-python`, in this process.

It compiles llama.cpp when it is installed, and answers one caller at a time.
"""

from importlib import import_module
from importlib.util import find_spec

from fastapi import FastAPI

from hearth.service.health import Health
from hearth.service.metrics import new_registry
from hearth.service.server import serve as serve_app
from hearth.service.server import service_routes
from hearth.service.version import hearth_version
from llama_expert.job import EngineFailed, EngineMissing, Job


def check() -> None:
    """Raise `EngineMissing` where the package is not installed."""
    if find_spec("llama_cpp") is None:
        raise EngineMissing(
            "The package llama-cpp-python is not installed: pip install 'llama-cpp-python[server]'."
        )


def serve(job: Job) -> None:
    """Load the model and serve until SIGTERM or SIGINT."""
    health = Health(job.model.name, version=hearth_version())
    app = build_app(job)
    app.router.routes[:0] = service_routes(health, new_registry())
    health.started()
    serve_app(app, host=job.host, port=job.port, health=health)


def build_app(job: Job) -> FastAPI:
    """The package's application with the model loaded; every `/v1` route needs the key."""
    server = import_module("llama_cpp.server.app")
    settings = import_module("llama_cpp.server.settings")
    # model_construct: these classes would also read environment variables as short as PORT.
    shared = settings.ServerSettings.model_construct(
        host=job.host, port=job.port, api_key=job.key, interrupt_requests=False
    )
    one = settings.ModelSettings.model_construct(
        model=str(job.path),
        model_alias=job.model.name,
        n_ctx=job.context,
        n_threads=job.threads,
        n_threads_batch=job.threads,
        logits_all=False,
        verbose=False,
    )
    try:
        app: FastAPI = server.create_app(server_settings=shared, model_settings=[one])
    except ValueError as error:
        raise EngineFailed(f"llama.cpp does not load {job.path}.") from error
    return app
