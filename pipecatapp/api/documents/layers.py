"""`/api/layers`: layers with overrides for workflows."""

from fastapi import Depends
from pydantic import BaseModel, ConfigDict
from starlette.responses import Response

from pipecatapp.api.access import known_caller
from pipecatapp.api.documents.texts import Name, Seen, WithDocuments, seen_missing
from pipecatapp.api.routing import api_router
from pipecatapp.application.documents.service import DocumentText, LayerSummary

router = api_router("/api/layers", dependencies=[Depends(known_caller)])


class LayerList(BaseModel):
    layers: list[LayerSummary]


class NewLayer(BaseModel):
    model_config = ConfigDict(extra="forbid")

    document: str


@router.get("")
async def list_layers(documents: WithDocuments) -> LayerList:
    """All that can be laid over a workflow by name."""
    return LayerList(layers=documents.layers())


@router.get("/{name}")
async def show_layer(name: Name, documents: WithDocuments, response: Response) -> DocumentText:
    """The text of a layer; its ETag is in the header, too."""
    shown = documents.layer(name)
    response.headers["etag"] = shown.etag
    return shown


@router.put("/{name}")
async def put_layer(
    name: Name, body: NewLayer, documents: WithDocuments, response: Response, if_match: Seen = None
) -> DocumentText:
    """Keep a layer; a new one needs no If-Match."""
    if if_match is None and name in {one.id for one in documents.layers()}:
        raise seen_missing()
    shown = documents.put_layer(name, body.document, seen=if_match)
    response.headers["etag"] = shown.etag
    return shown


@router.delete("/{name}", status_code=204)
async def remove_layer(name: Name, documents: WithDocuments, if_match: Seen = None) -> None:
    """Remove a layer; runs that were started with it keep what they began with."""
    if if_match is None:
        raise seen_missing()
    documents.remove_layer(name, seen=if_match)
