"""`/api/import`: files of older programs, as workflows."""

from fastapi import Depends
from pydantic import BaseModel, ConfigDict, Field

from pipecatapp.api.access import known_caller
from pipecatapp.api.library.library import WithLibrary
from pipecatapp.api.routing import api_router
from pipecatapp.application.library.service import ImportedFile

router = api_router("/api/import", dependencies=[Depends(known_caller)])


class OldFile(BaseModel):
    """An old file; `models` maps the models that it names to roles."""

    model_config = ConfigDict(extra="forbid")

    text: str
    file: str = Field(default="old.yaml", max_length=1000)
    name: str = Field("", pattern=r"^([a-z][a-z0-9-]*)?$", max_length=200)
    models: dict[str, str] = {}


@router.post("")
async def import_file(body: OldFile, library: WithLibrary) -> ImportedFile:
    """Convert a file of OrchestrAI, or one with connected nodes, to a workflow; nothing is
    stored."""
    return library.import_file(body.text, file=body.file, name=body.name, models=body.models)
