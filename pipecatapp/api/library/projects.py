"""`/api/projects`: what workflows know of the work they are part of."""

from fastapi import Depends
from pydantic import BaseModel

from pipecatapp.api.access import known_caller
from pipecatapp.api.library.library import Id, WithLibrary
from pipecatapp.api.routing import api_router
from pipecatapp.application.library.service import ProjectDetail

router = api_router("/api/projects", dependencies=[Depends(known_caller)])


class ProjectList(BaseModel):
    projects: list[ProjectDetail]


@router.get("")
async def list_projects(library: WithLibrary) -> ProjectList:
    """Return the projects of the state directory; secrets are shown as references only."""
    return ProjectList(projects=library.projects())


@router.get("/{id}")
async def show_project(id: Id, library: WithLibrary) -> ProjectDetail:
    return library.project(id)
