"""Read a file from a server into the workspace."""

import base64
from typing import Annotated

from pydantic import BaseModel, Field

from pipecatapp.tools.files.place import workspace
from pipecatapp.tools.files.write import Written
from pipecatapp.tools.web.get import RETRIES
from pipecatapp.tools.web.inputs import Exchange, HttpInputs
from pipecatapp.workflow import Context, tool


class Downloaded(BaseModel):
    """The file that was written. Its contents are not trusted."""

    path: str = Field(description="The file in the workspace.")
    size: int = Field(description="Bytes of the file.")
    sha256: str = Field(description="Of the file, in hex.")
    content_type: str = Field(description="The type that the server names.")
    url: str = Field(description="Its address, after redirects.")


@tool("http.download", effect="net", version=1, workspace=True)
async def download(
    ctx: Context,
    asked: HttpInputs,
    path: Annotated[str, Field(description="The file in the workspace.", min_length=1)],
) -> Downloaded:
    """Read a file from a web server into the workspace, with its bytes as they are."""
    workspace(ctx)
    exchange = Exchange(ctx, asked)
    answer = await exchange.send("GET", retries=RETRIES)
    text = base64.b64encode(answer.body).decode("ascii")
    given = {"path": path, "text": text, "encoding": "base64"}
    written = Written.model_validate(await ctx.call("file.write", given, at="write"))
    return Downloaded(
        path=written.path,
        size=written.size,
        sha256=written.sha256,
        content_type=answer.headers.get("content-type", ""),
        url=exchange.hidden(answer.url),
    )
