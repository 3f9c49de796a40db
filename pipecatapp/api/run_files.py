"""Files for runs and of runs: `/api/files`, `/api/runs/{id}/files`."""

from typing import Annotated, Final
from urllib.parse import quote

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel
from starlette.responses import Response

from pipecatapp.api.access import known_caller
from pipecatapp.api.owners import own_run
from pipecatapp.api.parts import WithParts
from pipecatapp.api.routing import api_router
from pipecatapp.application.run_files import RunFiles

SHOWN: Final = frozenset(
    {"image/png", "image/jpeg", "image/gif", "image/webp", "text/plain", "audio/wav", "audio/mpeg"}
)
"""Media types that a browser may show at our address: none of them can contain a program."""

uploads = APIRouter(prefix="/api/files", dependencies=[Depends(known_caller)])
router = api_router("/api/runs", dependencies=[Depends(known_caller), Depends(own_run)])

Step = Annotated[str | None, Query(max_length=1000, description="The path of a step.")]


class Upload(BaseModel):
    """A stored file; `POST /api/runs` takes its id in `files`."""

    id: str


@uploads.post("", status_code=201)
async def upload_file(request: Request, parts: WithParts) -> Upload:
    """Store a file, which is the whole body of any type, for a run that begins within a day."""
    return Upload(id=await parts.runs.files.upload(request.stream()))


@router.get("/{run}/files")
async def list_files(
    run: str,
    parts: WithParts,
    step: Step = None,
    *,
    everything: Annotated[bool, Query(alias="all")] = False,
) -> RunFiles:
    """Return the files that a run has made or changed; with `all`, also the others."""
    return await parts.runs.files.of(run, step, everything=everything)


@router.get("/{run}/files/{path:path}")
async def get_file(run: str, path: str, parts: WithParts, step: Step = None) -> Response:
    """Return the content of a file. Files that may contain a program are sent as attachments."""
    content, kind = await parts.runs.files.read(run, path, step)
    shown = "inline" if kind in SHOWN else "attachment"
    name = quote(path.rpartition("/")[2])
    headers = {"content-disposition": f"{shown}; filename*=UTF-8''{name}"}
    return Response(content, media_type=kind, headers=headers)
