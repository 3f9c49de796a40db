"""The tool `cluster.status` against services that speak HTTP."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from hearth.openai_api.testing import ScriptedModel
from hearth.service.health import Health
from hearth.service.metrics import new_registry
from hearth.service.server import service_routes
from pipecatapp.tools import TOOLS
from pipecatapp.tools.cluster.directory import Directory
from pipecatapp.tools.cluster.fixed import FixedPlaces, machine_of
from pipecatapp.workflow import Context

Serve = Callable[[ASGIApp], str]
STATUS = TOOLS["cluster.status"]
NOBODY = "http://127.0.0.1:9"
EXPERT = {"name": "small", "model": "smollm2", "healthy": True, "tools": "none"}


class Gateway:
    """Answers `/health` as our services do, and `/api/experts` to who has the key."""

    def __init__(self) -> None:
        self.health = Health("moe-gateway", version="1")
        self.health.started()
        routes = service_routes(self.health, new_registry())
        self.app = Starlette(routes=[*routes, Route("/api/experts", self._experts)])

    async def _experts(self, request: Request) -> JSONResponse:
        if request.headers.get("authorization") != "Bearer k":
            return JSONResponse({}, 401)
        return JSONResponse({"experts": [EXPERT]})


@asynccontextmanager
async def directory(
    services: dict[str, str], *, gateway: str = NOBODY, key: str = "k"
) -> AsyncIterator[Directory]:
    async with httpx2.AsyncClient(timeout=30, trust_env=False) as http:
        yield Directory(
            FixedPlaces(lambda: services, gateway=f"{gateway}/v1", http=http), key=key, http=http
        )


async def ask(parts: Directory) -> dict[str, Any]:
    told = await STATUS.check(Context(services={Directory: parts}), {})
    json.dumps(told)
    return told


async def test_status_names_machines_services_and_experts_that_work(serve: Serve) -> None:
    """Whoever asks how the house is doing gets all of it in one answer."""
    gateway, model = serve(Gateway().app), serve(ScriptedModel().app)
    services = {"moe-gateway": gateway, "llama-expert-small": model}

    async with directory(services, gateway=gateway) as parts:
        told = await ask(parts)

    assert told["healthy"] is True
    assert [m["services"] for m in told["machines"]] == [["moe-gateway", "llama-expert-small"]]
    assert [(s["name"], s["healthy"], s["detail"]) for s in told["services"]] == [
        ("moe-gateway", True, ""),
        ("llama-expert-small", True, ""),
    ]
    assert told["experts"][0]["model"] == "smollm2"


async def test_status_says_why_a_service_is_not_healthy_in_its_own_words(serve: Serve) -> None:
    """The reason is what a person can act on."""
    gateway, model = Gateway(), ScriptedModel()
    gateway.health.not_ready("experts", "no expert answers")
    model.loading = True
    services = {"moe-gateway": serve(gateway.app), "expert": serve(model.app), "gone": NOBODY}

    async with directory(services) as parts:
        told = await ask(parts)

    details = {s["name"]: s["detail"] for s in told["services"]}
    assert told["healthy"] is False
    assert not any(s["healthy"] for s in told["services"])
    assert details["moe-gateway"] == "experts: no expert answers"
    assert details["expert"] == "Loading model"
    assert "refused" in details["gone"] or "connect" in details["gone"].lower()


async def test_status_since_is_the_services_own_word_or_when_it_was_first_seen(
    serve: Serve,
) -> None:
    """ "Down since" must not move each time somebody looks."""
    gateway = Gateway()
    async with directory({"moe-gateway": serve(gateway.app), "gone": NOBODY}) as parts:
        first, second = await ask(parts), await ask(parts)

    told = {s["name"]: s["since"] for s in first["services"]}
    assert told == {s["name"]: s["since"] for s in second["services"]}
    assert told["moe-gateway"] == gateway.health.report().model_dump(mode="json")["since"]


async def test_experts_are_unknown_without_the_gateways_key(serve: Serve) -> None:
    """A wrong key is no crash of the status page; the log says it."""
    async with directory({}, gateway=serve(Gateway().app), key="wrong") as parts:
        assert await parts.experts() == []


def test_machine_of_another_host_is_that_host() -> None:
    """In a cluster the services stand on several machines."""
    assert machine_of("http://node2.lan:8080") == "node2.lan"
    assert machine_of("http://127.0.0.1:8080") != "127.0.0.1"
