"""Which models can be offered tools."""

from collections.abc import Callable

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from pipecatapp.tools.cluster.directory import Directory
from pipecatapp.tools.cluster.fixed import FixedPlaces
from pipecatapp.tools.model.facts import ExpertFacts

Serve = Callable[[ASGIApp], str]


def gateway(*experts: dict[str, object]) -> Starlette:
    async def show(request: Request) -> JSONResponse:
        return JSONResponse({"experts": list(experts)})

    return Starlette(routes=[Route("/api/experts", show)])


SMALL = {"name": "small", "model": "smollm2", "healthy": True, "tools": "none"}
BIG = {"name": "big", "model": "qwen", "healthy": True, "tools": "native"}


@pytest.mark.parametrize(
    ("experts", "model", "takes"),
    [
        ([SMALL], "small", False),
        ([SMALL], "auto", False),
        ([SMALL, BIG], "big", True),
        ([SMALL, BIG], "qwen", True),
        ([SMALL, BIG], "small", False),
        ([SMALL, BIG], "auto", True),
        ([SMALL, {**BIG, "healthy": False}], "auto", False),
        ([], "auto", False),
        ([SMALL, BIG], "unknown", False),
    ],
)
async def test_tools_are_offered_only_where_an_expert_takes_them(
    serve: Serve, experts: list[dict[str, object]], model: str, *, takes: bool
) -> None:
    """A model whose template ignores tools would read them as noise."""
    address = serve(gateway(*experts))
    async with httpx2.AsyncClient(trust_env=False) as http:
        facts = ExpertFacts(
            Directory(FixedPlaces(dict, gateway=f"{address}/v1", http=http), key="k", http=http)
        )
        await facts.refresh()

    assert facts.takes_tools(model) is takes
