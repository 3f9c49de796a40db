"""The result of all tools that make images, and how they write it."""

import asyncio
import base64
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Final

from pydantic import BaseModel, Field

from pipecatapp.tools.files.write import Written
from pipecatapp.tools.images.drawing.data import WrongData
from pipecatapp.tools.images.drawing.svg import Svg, TooLarge, rendered
from pipecatapp.tools.images.png import size_of, with_metadata
from pipecatapp.workflow import Context, Package, ToolFailed

RENDERER: Final = "hearth-drawing/1"
"""The model in the metadata of drawings; its number changes when the same data is drawn
differently."""
NEEDS: Final = (
    Package("resvg_py", extra="images"),
    Package("fontTools", extra="images"),
    Package("PIL", extra="images"),
)


class Picture(BaseModel):
    """A picture in the workspace."""

    path: str = Field(description="The PNG file in the workspace.")
    width: int = Field(description="Pixels.")
    height: int = Field(description="Pixels.")
    size: int = Field(description="Bytes of the file.")
    sha256: str = Field(description="Of the file, in hex.")
    model: str = Field(description="The model or renderer, also in its metadata.")
    seed: int = Field(description="The seed, also in its metadata.")
    note: str = Field("", description="Limitations, such as characters without a font.")


def check_path(path: str) -> None:
    """Check that a path is one of a PNG. Raises `ToolFailed`."""
    if PurePath(path).suffix.lower() != ".png":
        raise ToolFailed(f"{path!r} is not the name of a PNG: it must end in .png.")


async def write_picture(
    ctx: Context, path: str, png: bytes, facts: Mapping[str, str], note: str = ""
) -> Picture:
    """Write a PNG with its metadata into the workspace; `facts` have prompt, seed and model."""
    whole = with_metadata(png, {"Software": "Hearth", **facts})
    width, height = size_of(whole)
    given = {"path": path, "text": base64.b64encode(whole).decode("ascii"), "encoding": "base64"}
    written = Written.model_validate(await ctx.call("file.write", given, at="write"))
    ctx.record(picture=written.path, seed=int(facts["seed"]), image_model=facts["model"])
    return Picture(
        path=written.path,
        width=width,
        height=height,
        size=written.size,
        sha256=written.sha256,
        model=facts["model"],
        seed=int(facts["seed"]),
        note=note,
    )


async def write_drawing(
    ctx: Context, path: str, draw: Callable[[], Svg], scale: float, prompt: str
) -> Picture:
    """Draw, render and write a drawing. The prompt in its metadata is the data that it shows.

    Raises `ToolFailed` for data that cannot be drawn.
    """
    check_path(path)
    try:
        png, missing = await asyncio.to_thread(lambda: rendered(draw(), scale))
    except (WrongData, TooLarge) as error:
        raise ToolFailed(str(error)) from error
    note = ""
    if missing:
        note = (
            f"No font of this machine has {missing[:40]}: install one, such as the Debian package"
            " fonts-noto-core (most scripts) or fonts-noto-cjk (Chinese, Japanese, Korean)."
        )
    facts = {"prompt": prompt, "seed": "0", "model": RENDERER}
    return await write_picture(ctx, path, png, facts, note)
