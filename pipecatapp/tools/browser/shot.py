"""The tool `browser.shot`: a picture of the open page."""

import asyncio
import base64
from pathlib import PurePath
from typing import Annotated, Final

from pydantic import Field

from pipecatapp.tools.browser.process import NEEDS
from pipecatapp.tools.browser.session import HEIGHT, RESPONDS, WIDTH, Browsers
from pipecatapp.tools.files.write import LARGEST, Written
from pipecatapp.workflow import Context, ToolFailed, tool

TALLEST: Final = 8_000
"""Pixels of a picture of a whole page; the rest below is not in it."""


class Shot(Written):
    """The written picture."""

    title: str = Field(description="Title of the page: untrusted text.")
    address: str = Field(description="Address of the page.")
    width: int = Field(description="Pixels.")
    height: int = Field(description="Pixels.")
    cut: bool = Field(description="Whether the page is taller than the picture.")


@tool("browser.shot", effect="workspace", version=1, needs=NEEDS)
async def shot(
    ctx: Context,
    path: Annotated[
        str, Field(description="In the workspace; ends in .png.", min_length=5)
    ] = "page.png",
    full: Annotated[  # noqa: FBT002 (an input)
        bool, Field(description="The whole page, at most 8,000 pixels high; else what fits.")
    ] = False,
) -> Shot:
    """Write a PNG of the open page into the workspace."""
    if PurePath(path).suffix.lower() != ".png":
        raise ToolFailed(f"{path!r} is not the name of a PNG: it must end in .png.")
    async with ctx.service(Browsers).current(ctx.run) as session, asyncio.timeout(RESPONDS):
        page = session.page
        title, address = await page.title(), page.url
        height = await page.evaluate("document.documentElement.scrollHeight") if full else HEIGHT
        area = {"x": 0, "y": 0, "width": WIDTH, "height": min(max(int(height), HEIGHT), TALLEST)}
        picture = await page.screenshot(full_page=full, clip=area, animations="disabled")  # type: ignore[arg-type]
    if len(picture) > LARGEST:
        raise ToolFailed(f"The picture has {len(picture)} bytes; a tool writes {LARGEST}.")
    text = base64.b64encode(picture).decode("ascii")
    given = {"path": path, "text": text, "encoding": "base64"}
    written = await ctx.call("file.write", given, at="write")
    ctx.record(address=address)
    return Shot(
        **written,
        title=title[:300],
        address=address,
        width=WIDTH,
        height=area["height"],
        cut=int(height) > TALLEST,
    )
