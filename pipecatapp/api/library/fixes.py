"""`/api/fixes`: changes that made failing tests pass, with how often each helped."""

from typing import Annotated

from fastapi import Depends, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from pipecatapp.api.access import known_caller
from pipecatapp.api.owners import Behalf
from pipecatapp.api.parts import WithParts
from pipecatapp.api.routing import api_router
from pipecatapp.application.callers import owner_of
from pipecatapp.application.fixes import Fix, FixesNotImported

router = api_router("/api/fixes", dependencies=[Depends(known_caller)])


class FixList(BaseModel):
    """`total`: how many fixes there are without the limit."""

    fixes: list[Fix]
    total: int


class ImportedFixes(BaseModel):
    """`new`: how many of the fixes were not stored before."""

    new: int


class ChosenFixes(BaseModel):
    model_config = ConfigDict(extra="forbid")

    fixes: list[str] = Field(min_length=1, max_length=1000)


@router.get("")
async def list_fixes(
    parts: WithParts,
    query: Annotated[str, Query(max_length=1000)] = "",
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    behalf: Behalf = "",
) -> FixList:
    """The last used first; with `query`, only those that have all of its words."""
    owner = owner_of(behalf)
    found = parts.fixes.find(query, limit, owner=owner)
    return FixList(fixes=found, total=parts.fixes.number(query, owner=owner))


@router.get("/export")
async def export_fixes(
    parts: WithParts,
    id: Annotated[list[str], Query(max_length=1000)] = [],  # noqa: B006
    behalf: Behalf = "",
) -> Response:
    """Return fixes as JSON for `/import`; all without `id`."""
    text = parts.fixes.export(id, owner=owner_of(behalf))
    return Response(text, media_type="application/json")


@router.post("/import", status_code=201)
async def import_fixes(request: Request, parts: WithParts, behalf: Behalf = "") -> ImportedFixes:
    """Store exported fixes, all or none; the body is their JSON."""
    try:
        text = (await request.body()).decode()
    except UnicodeDecodeError as error:
        raise FixesNotImported(f"The file is not UTF-8 text: byte {error.start}.") from error
    return ImportedFixes(new=await parts.fixes.import_(text, owner=owner_of(behalf)))


@router.post("/forget", status_code=204)
async def forget_fixes(body: ChosenFixes, parts: WithParts, behalf: Behalf = "") -> None:
    """Remove fixes, all or none."""
    await parts.fixes.forget(body.fixes, owner=owner_of(behalf))


@router.get("/{fix}")
async def show_fix(fix: str, parts: WithParts, behalf: Behalf = "") -> Fix:
    """One fix with its changed lines."""
    return parts.fixes.show(fix, owner=owner_of(behalf))
