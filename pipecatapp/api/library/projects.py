"""`/api/projects`: what workflows know of the work they are part of."""

from fastapi import APIRouter, Depends
from pydantic import BaseModel

from pipecatapp.api.access import known_caller
from pipecatapp.api.library.shelf import Id, WithShelf
from pipecatapp.shelf import ProjectPage

router = APIRouter(prefix="/api/projects", dependencies=[Depends(known_caller)])


class ProjectList(BaseModel):
    projects: list[ProjectPage]


@router.get("")
async def list_projects(shelf: WithShelf) -> ProjectList:
    """Those of the state directory; keys of other services only by where they lie."""
    return ProjectList(projects=shelf.projects())


@router.get("/{id}")
async def show_project(id: Id, shelf: WithShelf) -> ProjectPage:
    return shelf.project(id)
