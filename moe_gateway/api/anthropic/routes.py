"""`/v1/messages/count_tokens`: about how many tokens a request would take."""

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse

from hearth.service.http_errors import Refused
from moe_gateway.api.anthropic.answer import error_of
from moe_gateway.api.anthropic.request import read_request
from moe_gateway.requests.context import TEXT_PER_TOKEN
from moe_gateway.requests.translated import request_bytes, request_object
from moe_gateway.routing.body import BYTES_PER_TOKEN, look_at, needs_of


def count_routes() -> APIRouter:
    """Return the route; the count is an estimate by size, without a request to a server."""
    router = APIRouter(prefix="/v1/messages", tags=["anthropic"])

    body = {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}

    @router.post(
        "/count_tokens",
        summary="Estimate the tokens of a message",
        openapi_extra={"requestBody": body},
    )
    async def count_tokens(request: Request) -> JSONResponse:
        try:
            body = request_bytes(read_request(request_object(await request.body())).chat)
            look_at(body)
        except Refused as refused:
            name = request.headers.get("x-request-id", "")
            error = error_of(refused.body()["error"], refused.status, name)
            return JSONResponse(error, refused.status)
        size = needs_of(body, "chat").tokens * BYTES_PER_TOKEN
        return JSONResponse({"input_tokens": max(1, size // TEXT_PER_TOKEN)})

    return router
