"""`/api/backup` and `/api/restore`: the state of this service as one file, out and in."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

import structlog
from fastapi import Depends, Request
from fastapi.responses import FileResponse
from pydantic import BaseModel
from starlette.background import BackgroundTask

from hearth.service.http_errors import Refused
from hearth.service.state import StateDir
from pipecatapp.api.access import known_caller
from pipecatapp.api.parts import parts_of
from pipecatapp.api.routing import api_router
from pipecatapp.application.backup import ArchiveError, Manifest, restored, stage, write_archive

log = structlog.get_logger()

router = api_router("/api", dependencies=[Depends(known_caller)])

RESTART_SECONDS: Final = 0.3
"""So long the answer may take to reach the caller before the service stops."""


class Restore(BaseModel):
    """The archive from which the state was restored, and the id of the restore; null if there is
    none."""

    id: str | None
    created: datetime | None
    restore: str | None


def state_of(request: Request) -> StateDir:
    state = request.app.state.directory
    assert isinstance(state, StateDir)
    return state


@router.get("/backup")
async def back_up(request: Request) -> FileResponse:
    """Return an archive of the current state; runs continue meanwhile."""
    state = state_of(request)
    target = _file_in(state.root)
    try:
        manifest = await asyncio.to_thread(write_archive, state, target)
    except BaseException as error:
        target.unlink(missing_ok=True)
        if isinstance(error, ArchiveError | OSError):
            raise Refused(500, "no_backup", f"No backup can be made: {error}") from error
        raise
    log.info("backed_up", id=manifest.id, files=len(manifest.files))
    return FileResponse(
        target,
        media_type="application/gzip",
        filename=f"hearth-{manifest.created:%Y%m%dT%H%M%SZ}.tar.gz",
        headers={"x-hearth-backup": manifest.id},
        background=BackgroundTask(target.unlink),
    )


@router.get("/restore")
async def show_restore(request: Request) -> Restore:
    last = await asyncio.to_thread(restored, state_of(request))
    return _shown(last) if last else Restore(id=None, created=None, restore=None)


@router.post("/restore", status_code=202)
async def restore(request: Request) -> Restore:
    """Check the archive in the body, store it for the next start, and restart with it.

    The keys stay those of this instance. A wrong archive is refused and nothing is changed.
    """
    state = state_of(request)
    upload = _file_in(state.root)
    try:
        await _save(request.stream(), upload)
        manifest = await asyncio.to_thread(
            stage, state, upload, keys=False, called="The uploaded file"
        )
    except ArchiveError as error:
        raise Refused(422, "unusable_archive", str(error)) from error
    finally:
        upload.unlink(missing_ok=True)
    log.warning("restore_staged", id=manifest.id, created=manifest.created.isoformat())
    asyncio.get_running_loop().call_later(RESTART_SECONDS, parts_of(request).stop.restart)
    return _shown(manifest)


def _shown(manifest: Manifest) -> Restore:
    return Restore(id=manifest.id, created=manifest.created, restore=manifest.restore)


def _file_in(folder: Path) -> Path:
    """Create an empty private file whose name begins with a dot, so that backups omit it."""
    with NamedTemporaryFile(dir=folder, prefix=".archive-", delete=False) as file:
        return Path(file.name)


async def _save(body: AsyncIterator[bytes], file: Path) -> None:
    with file.open("wb") as stream:
        async for data in body:
            await asyncio.to_thread(stream.write, data)
