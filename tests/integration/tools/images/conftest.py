"""A real gateway with a scripted expert for images behind it."""

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hearth.openai_api.client import ModelClient
from hearth.openai_api.testing import ScriptedModel
from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context, Engine
from tests.integration.gateway.conftest import KEY, Lab


@dataclass
class Gateways:
    """Two gateways, and the expert of one of them."""

    expert: ScriptedModel
    drawing: str
    """The address of the gateway with an expert for images."""
    talking: str
    """The address of the gateway that has none."""


@pytest.fixture(scope="module")
def gateways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateways]:
    """Start them once for the module."""
    expert = ScriptedModel()
    with ExitStack() as stack:
        lab = Lab(stack, tmp_path_factory.mktemp("gateway"))
        talks = lab.expert(ScriptedModel())
        draws = lab.expert(expert, "draws", images=True, chat=False)
        drawing, talking = lab.gateway(talks, draws), lab.gateway(talks)
        yield Gateways(expert, f"{drawing.base_url}/v1", f"{talking.base_url}/v1")


@pytest.fixture
async def client(gateways: Gateways) -> AsyncIterator[ModelClient]:
    """A client of the gateway with an expert for images."""
    gateways.expert.reset()
    async with ModelClient(gateways.drawing, KEY) as client:
        yield client


@pytest.fixture
async def without(gateways: Gateways) -> AsyncIterator[ModelClient]:
    """A client of the gateway without one."""
    async with ModelClient(gateways.talking, KEY) as client:
        yield client


async def outcome(engine: Engine, workflow: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """Run a workflow, and return its picture."""
    ended = await engine.wait(await engine.start(workflow, inputs))
    assert ended.status == "done", ended
    picture: dict[str, Any] = ended.outputs["picture"]
    return picture


def context(client: ModelClient, folder: Path, run: str = "r") -> Context:
    """A run whose tools may call each other."""
    services = {ModelClient: client}
    ctx = Context(run=run, path="make", workspace=folder, services=services)

    async def inner(tool: str, given: object, *, at: str, say: object) -> dict[str, object]:
        assert isinstance(given, dict)
        return await TOOLS[tool].check(ctx, given)

    ctx.inner = inner
    return ctx


def files(folder: Path, name: str) -> list[Path]:
    """Return the files of this name in the workspaces of all runs."""
    return sorted(folder.glob(f"workspaces/**/{name}"))
