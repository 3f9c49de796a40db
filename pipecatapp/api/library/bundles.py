"""`/api/bundles`: documents in a signed file, for another instance and from one."""

from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from hearth.service.http_errors import Refused
from pipecatapp.api.access import known_caller
from pipecatapp.api.library.library import WithLibrary
from pipecatapp.api.parts import WithParts
from pipecatapp.application.bundles.service import (
    BundlePreview,
    BundleService,
    Imported,
    KeyList,
)

LARGEST: Final = 16 << 20
"""Bytes of a bundle."""

router = APIRouter(prefix="/api/bundles", dependencies=[Depends(known_caller)])
"""The bodies are archives, not JSON."""


def bundles_of(request: Request, parts: WithParts, library: WithLibrary) -> BundleService:
    """The bundles of this instance."""
    return BundleService(parts.runs, library, request.app.state.directory.root)


WithBundles = Annotated[BundleService, Depends(bundles_of)]


async def body_of(request: Request) -> bytes:
    """Return the whole body; a bundle is small."""
    body = bytearray()
    async for data in request.stream():
        body += data
        if len(body) > LARGEST:
            raise Refused(413, "body_too_large", f"A bundle may have {LARGEST >> 20} MiB.")
    return bytes(body)


@router.get("")
async def export_bundle(
    bundles: WithBundles,
    document: Annotated[list[str], Query(min_length=1, max_length=200)],
) -> Response:
    """Return a bundle of the named documents and of those that they need."""
    name = document[0].rpartition("/")[2]
    headers = {"content-disposition": f'attachment; filename="{name}.hearth"'}
    return Response(bundles.export(document), media_type="application/zip", headers=headers)


@router.get("/keys")
async def list_keys(bundles: WithBundles) -> KeyList:
    """Return the fingerprints of this instance's key and of the trusted keys."""
    return bundles.keys()


@router.post("/preview")
async def preview_bundle(request: Request, bundles: WithBundles) -> BundlePreview:
    """Return the signer of a bundle and the changes of an import; nothing is stored."""
    return bundles.preview(await body_of(request))


@router.post("")
async def import_bundle(
    request: Request,
    bundles: WithBundles,
    trust: Annotated[
        str, Query(max_length=100, description="The fingerprint that a person has compared.")
    ] = "",
    replace: Annotated[
        list[str], Query(description="Names of changed documents to replace; * for all.")
    ] = [],  # noqa: B006
) -> Imported:
    """Store the new documents of a bundle, and those of `replace`."""
    return await bundles.take(await body_of(request), trust=trust, replace=replace)
