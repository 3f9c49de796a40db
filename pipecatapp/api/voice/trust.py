"""`/ca.crt`: the certificate of the authority that certified this service, for other machines.

Everybody may have it: it is what a browser is shown anyway, and opens nothing.
"""

from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

ADDRESS: Final = "/ca.crt"


def trust_routes(ca_file: Path | None) -> list[Route]:
    """Its one route; none where there is no such authority."""
    if ca_file is None:
        return []

    certificate = ca_file.read_bytes()

    async def show_authority(request: Request) -> Response:
        return Response(
            certificate,
            media_type="application/x-x509-ca-cert",
            headers={"content-disposition": 'attachment; filename="hearth-ca.crt"'},
        )

    return [Route(ADDRESS, show_authority)]
