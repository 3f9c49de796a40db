"""`/ca.crt`: the certificate of the authority that certified this service, for other machines.

The certificate is public: the server presents it anyway, and it gives no access.
"""

from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

ADDRESS: Final = "/ca.crt"


def trust_routes(ca_file: Path | None) -> list[Route]:
    """Return its route; none without an authority."""
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
