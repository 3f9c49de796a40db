"""Send a request that may change something."""

from typing import Annotated, Any, Literal

from pydantic import Field

from pipecatapp.tools.web.inputs import Exchange, HttpAnswer, HttpInputs, body_of
from pipecatapp.workflow import Context, tool


@tool("http.request", effect="external", version=1, approve="always")
async def request(
    ctx: Context,
    asked: HttpInputs,
    method: Annotated[
        Literal["POST", "PUT", "PATCH", "DELETE", "GET", "HEAD"], Field(description="The method.")
    ] = "POST",
    data: Annotated[Any, Field(description="Data to send as JSON; null for none.")] = None,
    text: Annotated[
        str | None, Field(description="Text to send instead of `data`.", max_length=1_000_000)
    ] = None,
) -> HttpAnswer:
    """Send an HTTP request that may change something; it is sent once. To read, use http.get."""
    body, headers = body_of(text, data, asked.headers)
    exchange = Exchange(ctx, asked.model_copy(update={"headers": headers}))
    return exchange.result(await exchange.send(method, body))
