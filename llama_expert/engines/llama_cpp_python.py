"""The server of the package `llama-cpp-python`, in this process.

It compiles llama.cpp when it is installed, and answers one caller at a time.
"""

from importlib import import_module
from importlib.util import find_spec

from fastapi import APIRouter, FastAPI
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from hearth.service.health import Health
from hearth.service.http_errors import BearerKeys, add_error_handlers, sent_key, wrong_key
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
    app = build_app(job, health)
    health.started()
    serve_app(app, host=job.host, port=job.port, health=health)


def build_app(job: Job, health: Health) -> FastAPI:
    """The package's routes and ours, with the model loaded; every `/v1` route needs the key.

    The package's own application would add its documentation pages, and CORS headers that let any
    web page in.
    """
    app = FastAPI(openapi_url=None)
    app.routes.extend([*service_routes(health, new_registry()), Route("/v1/models", _Models(job))])
    app.include_router(_load(job))
    add_error_handlers(app)
    return app


class _Models:
    """`GET /v1/models`; the route of the package waits until no request is active."""

    def __init__(self, job: Job) -> None:
        self._keys = BearerKeys([job.key])
        model = {"id": job.model.name, "object": "model", "created": 0, "owned_by": "hearth"}
        self._answer = {"object": "list", "data": [model]}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        key = sent_key(HTTPConnection(scope))
        if key is not None and self._keys.opens(key):
            answer = JSONResponse(self._answer)
        else:
            answer = wrong_key("It is the key that the gateway has for this expert.").response()
        await answer(scope, receive, send)


def _load(job: Job) -> APIRouter:
    """Load the model into the package; its routes, which find it there."""
    server = import_module("llama_cpp.server.app")
    settings = import_module("llama_cpp.server.settings")
    # model_construct: these classes would also read environment variables as short as PORT.
    shared = settings.ServerSettings.model_construct(api_key=job.key, interrupt_requests=False)
    one = settings.ModelSettings.model_construct(
        model=str(job.path),
        model_alias=job.model.name,
        n_ctx=job.context,
        n_threads=job.threads,
        n_threads_batch=job.threads,
        logits_all=False,
        verbose=False,
    )
    server.set_server_settings(shared)
    try:
        server.set_llama_proxy([one])
    except ValueError as error:
        raise EngineFailed(f"llama.cpp does not load {job.path}.") from error
    router: APIRouter = server.router
    return router
