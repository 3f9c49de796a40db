"""Read from a server."""

from typing import Annotated, Literal

from pydantic import Field

from pipecatapp.tools.web.inputs import Exchange, HttpAnswer, HttpInputs
from pipecatapp.workflow import BY_AUTHOR, Context, tool

RETRIES = 2


@tool("http.get", effect="net", version=1)
async def get(
    ctx: Context,
    asked: HttpInputs,
    method: Annotated[Literal["GET", "HEAD"], Field(description="GET or HEAD.")] = "GET",
    retries: Annotated[
        int, BY_AUTHOR, Field(description="Repetitions if the server is busy or away.", ge=0, le=5)
    ] = RETRIES,
) -> HttpAnswer:
    """Read text or JSON from a web server; only hosts that the owner or the document names."""
    exchange = Exchange(ctx, asked)
    return exchange.result(await exchange.send(method, retries=retries))
