"""`/v1/models` and `/api/experts`: the available models, and the reasons if one is unavailable."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from fastapi import APIRouter, Request

from moe_gateway.errors import unknown_model
from moe_gateway.keys.limits import Caller
from moe_gateway.routing.choice import known_models
from moe_gateway.routing.instances import Instance, Watch
from moe_gateway.settings import AUTO

Json = dict[str, Any]


def model_routes(watch: Watch, scope_of: Callable[[str], str]) -> APIRouter:
    """Return the routes; `scope_of` returns the scope that a key needs for a model."""
    router, instances = APIRouter(tags=["models"]), watch.instances
    created = int(time.time())

    def described(name: str) -> Json:
        own = {"id": name, "object": "model", "created": created, "owned_by": "hearth"}
        return own | details_of(name, instances)

    def opens(caller: Caller, name: str) -> bool:
        return caller.may_use(name) and caller.may_do(scope_of(name))

    @router.get("/v1/models", summary="List the models that this key permits")
    async def models(request: Request) -> Json:
        caller: Caller = request.state.caller
        ready = [instance for instance in instances if instance.healthy]
        names = [name for name in known_models(ready) if opens(caller, name)]
        return {"object": "list", "data": [described(name) for name in names]}

    @router.get("/v1/models/{name:path}", summary="One model")
    async def model(name: str, request: Request) -> Json:
        caller: Caller = request.state.caller
        known = known_models(instances)
        if name not in known:
            raise unknown_model(name, [one for one in known if opens(caller, one)])
        caller.check(name, scope_of(name))
        return described(name)

    @router.get("/api/experts", tags=["hearth"], summary="List the experts and their availability")
    async def experts() -> Json:
        return _experts(watch)

    return router


def _experts(watch: Watch) -> Json:
    names = dict.fromkeys(one.expert for one in watch.instances if one.expert is not None)
    others = [one for one in watch.instances if one.expert is None]
    return {
        "experts": [_expert(name, watch.instances) for name in names],
        "others": [
            {"models": list(one.names), "speech": one.speech, **one.facts()} for one in others
        ],
        "consul": None if watch.consul is None else {"away": watch.consul.away},
    }


def details_of(name: str, instances: Sequence[Instance]) -> Json:
    """Return the properties of a model for clients."""
    own = [one for one in instances if name in one.names]
    first = next((one for one in own if one.healthy), own[0] if own else None)
    if name == AUTO or first is None:
        return {"kind": "router"}
    if first.speech is not None:
        return {"kind": first.speech}
    if first.expert is None:
        return {"kind": "agent"}
    return {
        "kind": "expert",
        "alias_of": None if name == first.expert else first.expert,
        "runs": first.model,
        "context_length": first.context,
        "capabilities": capabilities_of(first),
        "languages": list(first.languages),
        "domains": list(first.domains),
    }


def capabilities_of(instance: Instance) -> list[str]:
    """Of chat, tools, vision, json, embeddings, rerank and images what it can."""
    can = {
        "chat": instance.chat,
        "tools": instance.chat and instance.tools != "none",
        "vision": instance.vision,
        "json": instance.chat and instance.structured,
        "embeddings": instance.embeddings,
        "rerank": instance.rerank,
        "images": instance.images,
    }
    return [name for name, yes in can.items() if yes]


def _expert(name: str, instances: Sequence[Instance]) -> Json:
    """Return an expert with its instances; the capabilities are those of the first instance."""
    own = [one for one in instances if one.expert == name]
    first = next((one for one in own if one.healthy), own[0])
    return {
        "name": name,
        "aliases": [alias for alias in first.names if alias != name],
        "model": first.model,
        "model_reason": first.model_reason,
        "healthy": first.healthy,
        "reason": first.reason,
        "auto": first.healthy and first.auto,
        "cost": first.cost,
        "context": first.context,
        "tools": first.tools,
        "vision": first.vision,
        "embeddings": first.embeddings,
        "capabilities": capabilities_of(first),
        "languages": list(first.languages),
        "domains": list(first.domains),
        "fallback": list(first.fallback),
        "instances": [one.facts() for one in own],
    }
