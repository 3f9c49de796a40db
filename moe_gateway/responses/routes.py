"""`/v1/responses/ID`: read or delete a stored response, with the key that it was made for."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from hearth.service.http_errors import Refused
from moe_gateway.responses.store import KeyResponses, ResponseStore


def response_routes(store: ResponseStore) -> APIRouter:
    """The routes; a response of another key is not found."""
    router = APIRouter(prefix="/v1/responses", tags=["openai"])

    def of(request: Request) -> KeyResponses:
        return store.of(request.state.caller)

    @router.get("/{response_id}", summary="A stored response")
    async def show_response(response_id: str, request: Request) -> Response:
        if request.query_params.get("stream") == "true":
            message = "A stored response is not streamed again; ask for it without `stream`."
            raise Refused(400, "unsupported_field", message, param="stream")
        stored = of(request).get(response_id)
        if stored is None:
            raise _not_found(response_id)
        return Response(stored.body, media_type="application/json")

    @router.delete("/{response_id}", summary="Delete a stored response")
    async def delete_response(response_id: str, request: Request) -> dict[str, object]:
        if not of(request).remove(response_id):
            raise _not_found(response_id)
        return {"id": response_id, "object": "response", "deleted": True}

    return router


def _not_found(name: str) -> Refused:
    message = (
        f"Response with id {name[:100]!r} not found: its time is over, or it was not stored for"
        " this key."
    )
    return Refused(404, "response_not_found", message)
