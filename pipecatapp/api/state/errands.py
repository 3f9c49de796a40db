"""Routes with which a worker of the cluster downloads its program and uploads the result.

Each remote job has a separate token that expires with its result; no other key is accepted.
"""

from fastapi import Request, Response
from fastapi.responses import FileResponse

from hearth.service.http_errors import Refused
from pipecatapp.api.routing import api_router
from pipecatapp.application.engine import ToolFailed
from pipecatapp.application.remote_jobs import Errands, NoErrand, Offered

router = api_router("/api/errands")


def asked_for(request: Request, id: str) -> Offered:
    """Return the remote job of the path; an unknown id and a wrong token give the same error."""
    errands = request.app.state.errands
    assert isinstance(errands, Errands)
    token = request.headers.get("authorization", "").removeprefix("Bearer ")
    try:
        return errands.find(id, token)
    except NoErrand as error:
        raise Refused(404, "no_errand", str(error)) from error


@router.get("/{id}")
async def fetch(request: Request, id: str) -> FileResponse:
    """The program and its folder."""
    return FileResponse(asked_for(request, id).given, media_type="application/x-tar")


@router.put("/{id}")
async def deliver(request: Request, id: str) -> Response:
    """Receive the result as a stream, up to the size that the limits of the job permit."""
    offered = asked_for(request, id)
    try:
        await request.app.state.errands.keep(offered, request.stream())
    except ToolFailed as error:
        raise Refused(413, "result_too_large", str(error)) from error
    return Response(status_code=204)
