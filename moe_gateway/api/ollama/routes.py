"""Ollama's paths that no expert answers: which models there are, and what is refused."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse

from hearth.service.http_errors import Refused
from moe_gateway.api.models import capabilities_of, details_of
from moe_gateway.errors import models_are_managed, unknown_model
from moe_gateway.keys.limits import Caller
from moe_gateway.requests.translated import request_object
from moe_gateway.routing.choice import known_models
from moe_gateway.routing.instances import Instance

Json = dict[str, Any]

API_VERSION: Final = "0.14.2"
"""The release of Ollama whose API this is. Programs ask whether it is new enough for them: VS Code
wants 0.6.4, what uses `/v1/responses` 0.13.3, and what uses `/v1/messages` 0.14.0."""

REFUSED: Final = (
    *(("POST", "/api/pull"), ("POST", "/api/push"), ("POST", "/api/create")),
    *(("POST", "/api/copy"), ("DELETE", "/api/delete")),
)
PATHS: Final = frozenset(
    (
        *("/api/tags", "/api/ps", "/api/version", "/api/show"),
        *(path for _, path in REFUSED),
    )
)
LATEST: Final = ":latest"
CAPABILITIES: Final = {
    "chat": "completion",
    "tools": "tools",
    "vision": "vision",
    "embeddings": "embedding",
}
"""Our names of what a model can -> Ollama's."""
NEVER: Final = "9999-12-31T23:59:59Z"
"""When an expert is unloaded that stays."""
BODY: Final[Json] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"type": "object"}}},
    }
}


class _Models:
    """The models in Ollama's format."""

    def __init__(self, instances: Sequence[Instance], scope_of: Callable[[str], str]) -> None:
        self.instances, self.scope_of = instances, scope_of
        self.since = datetime.now(UTC).isoformat()

    def opens(self, caller: Caller, name: str) -> bool:
        """Return whether this caller may ask this model."""
        return caller.may_use(name) and caller.may_do(self.scope_of(name))

    def ready(self, caller: Caller) -> list[tuple[str, Json]]:
        """Return the names that this caller can ask now, each with its details."""
        ready = [one for one in self.instances if one.healthy and one.speech is None]
        names = [name for name in known_models(ready) if self.opens(caller, name)]
        return [(name, details_of(name, self.instances)) for name in names]

    def described(self, name: str, details: Json) -> Json:
        """Return one entry of a list."""
        told = {"name": name, "model": name, "modified_at": self.since, "size": 0, "digest": ""}
        return told | {"details": _details(details)}

    def loaded(self, name: str, details: Json) -> Json:
        """Return one entry of the list of what is in memory."""
        length = details["context_length"] or 0
        more = {"expires_at": NEVER, "size_vram": 0, "context_length": length}
        return self.described(name, details) | more

    def shown(self, body: bytes, caller: Caller) -> Json:
        """Return what is known of the model that a request names. Raises `Refused`."""
        known = known_models(self.instances)
        name = _name_in(body, known)
        if name not in known:
            raise unknown_model(name, [one for one in known if self.opens(caller, one)])
        caller.check(name, self.scope_of(name))
        details = details_of(name, self.instances)
        length = details.get("context_length")
        info = {"hearth.context_length": length} if length else {}
        return {
            **dict.fromkeys(("modelfile", "parameters", "template"), ""),
            "modified_at": self.since,
            "details": _details(details),
            "model_info": {"general.architecture": "hearth"} | info,
            "capabilities": _capabilities(details, self.instances),
        }


def ollama_routes(instances: Sequence[Instance], scope_of: Callable[[str], str]) -> APIRouter:
    """Return the routes; `scope_of` returns the scope that a key needs for a model."""
    router = APIRouter(prefix="/api", tags=["ollama"])
    models = _Models(instances, scope_of)

    @router.get("/tags", summary="List the models that this key permits")
    async def list_models(request: Request) -> Json:
        return {"models": [models.described(*one) for one in models.ready(request.state.caller)]}

    @router.get("/ps", summary="List the loaded models, which are the experts")
    async def list_loaded(request: Request) -> Json:
        found = models.ready(request.state.caller)
        return {"models": [models.loaded(*one) for one in found if one[1]["kind"] == "expert"]}

    @router.get("/version", summary="Return the supported version of Ollama's API")
    async def version() -> Json:
        return {"version": API_VERSION}

    @router.post("/show", summary="Show the capabilities of a model", openapi_extra=BODY)
    async def show_model(request: Request) -> JSONResponse:
        try:
            return JSONResponse(models.shown(await request.body(), request.state.caller))
        except Refused as refused:
            return _refusal(refused)

    async def refuse() -> JSONResponse:
        return _refusal(models_are_managed())

    summary = "Refused: experts are declared, not pulled"
    for method, path in REFUSED:
        name = path.removeprefix("/api")
        router.add_api_route(name, refuse, methods=[method], summary=summary, status_code=403)
    return router


def _name_in(body: bytes, known: Sequence[str]) -> str:
    fields = request_object(body)
    name = fields.get("model") or fields.get("name")
    if not isinstance(name, str):
        message = "model must be the name of a model."
        raise Refused(400, "invalid_type", message, param="model")
    return name if name in known else name.removesuffix(LATEST)


def _refusal(refused: Refused) -> JSONResponse:
    return JSONResponse({"error": refused.message}, refused.status, refused.headers)


def _details(details: Json) -> Json:
    """Return Ollama's details of a model file; models here are identified by their names."""
    return {
        "parent_model": details.get("runs") or "",
        "format": "",
        "family": details["kind"],
        "families": [details["kind"]],
        "parameter_size": "",
        "quantization_level": "",
    }


def _capabilities(details: Json, instances: Sequence[Instance]) -> list[str]:
    """Return Ollama's names of what a model can; `auto` can what one of its experts can."""
    if details["kind"] == "expert":
        can = details["capabilities"]
    elif details["kind"] == "router":
        experts = [one for one in instances if one.expert is not None and one.auto]
        can = [name for one in experts for name in capabilities_of(one)]
    else:
        can = ["chat"]
    return [told for name, told in CAPABILITIES.items() if name in can]
