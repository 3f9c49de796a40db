"""`/api/models`: the model catalogue of this machine, downloads, and which model is served."""

import asyncio
from typing import Annotated

from fastapi import Depends, Request

from pipecatapp.api.owners import administrator
from pipecatapp.api.parts import WithParts
from pipecatapp.api.routing import api_router
from pipecatapp.application.models import ModelList, ModelService
from pipecatapp.application.status import largest_memory

router = api_router("/api/models", dependencies=[Depends(administrator)])


def models_of(request: Request) -> ModelService:
    service = request.app.state.models
    assert isinstance(service, ModelService)
    return service


WithModels = Annotated[ModelService, Depends(models_of)]


@router.get("")
async def list_models(parts: WithParts, models: WithModels) -> ModelList:
    """Every model with its state here, the downloads under way, and the best one that fits."""
    directory = parts.directory
    experts, memory = await asyncio.gather(directory.experts(), largest_memory(directory))
    return await asyncio.to_thread(models.show, experts, memory)


@router.post("/{name}/pull", status_code=202)
async def pull(name: str, models: WithModels) -> None:
    """Start to download a model; `GET /api/models` tells how far it is."""
    await asyncio.to_thread(models.pull, name)


@router.delete("/{name}/pull", status_code=202)
async def cancel(name: str, models: WithModels) -> None:
    """Cancel a download; the next download continues from there if the source supports it."""
    await asyncio.to_thread(models.cancel, name)


@router.post("/{name}/use", status_code=202)
async def use(name: str, models: WithModels) -> None:
    """Let the running expert serve a model; `GET /api/models` tells when it is ready."""
    await asyncio.to_thread(models.use, name)


@router.delete("/{name}", status_code=204)
async def remove(name: str, models: WithModels) -> None:
    """Delete the files of a model that is not in use."""
    await asyncio.to_thread(models.remove, name)
