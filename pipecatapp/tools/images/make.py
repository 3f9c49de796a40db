"""A picture of a description, by an expert that makes images, or a drawing instead."""

import hashlib
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from hearth.openai_api.client import ModelClient
from hearth.openai_api.errors import ModelError, ModelRefused
from pipecatapp.tools.images.picture import NEEDS, Picture, check_path, write_picture
from pipecatapp.tools.images.png import NotAPicture, as_png
from pipecatapp.tools.model.behalf import behalf_of
from pipecatapp.workflow import BY_AUTHOR, Context, ToolFailed, tool

NO_EXPERT: Final = (
    "No expert of this home makes images. Add one with `images: true` (see 'Make images' in the"
    " documentation). Charts and diagrams need none: use image.chart or image.diagram."
)


@tool("image.make", effect="workspace", version=1, needs=NEEDS)
async def make(
    ctx: Context,
    prompt: Annotated[
        str, Field(description="Description of the picture.", min_length=1, max_length=4000)
    ],
    path: Annotated[str, Field(description="The PNG in the workspace; ends in .png.")],
    width: Annotated[int, Field(description="Pixels.", ge=64, le=4096)] = 1024,
    height: Annotated[int, Field(description="Pixels.", ge=64, le=4096)] = 1024,
    seed: Annotated[
        int | None,
        Field(
            description="The same seed repeats a picture; null takes one from the run.",
            ge=0,
            lt=2**31,
        ),
    ] = None,
    model: Annotated[str, BY_AUTHOR, Field(description="An expert that makes images.")] = "auto",
    backend: Annotated[
        Literal["auto", "expert", "drawing"],
        BY_AUTHOR,
        Field(description="auto asks an expert, and draws `drawing` where there is none."),
    ] = "auto",
    drawing: Annotated[
        dict[str, Any] | None,
        BY_AUTHOR,
        Field(description="Input of image.chart or image.diagram, to draw instead."),
    ] = None,
) -> Picture:
    """Make a picture from a description, with an expert for images; charts: use image.chart."""
    check_path(path)
    if backend == "drawing":
        return await _draw(ctx, path, drawing)
    seed = _seed(ctx, prompt) if seed is None else seed
    try:
        data, served = await ctx.service(ModelClient).image(
            prompt, model=model, size=f"{width}x{height}", seed=seed, headers=behalf_of(ctx)
        )
        png = as_png(data)
    except ModelRefused as error:
        if _is_missing(error) and model == "auto":
            if drawing is not None and backend == "auto":
                return await _draw(ctx, path, drawing)
            raise ToolFailed(NO_EXPERT) from error
        raise ToolFailed(f"The picture cannot be made: {error}") from error
    except (ModelError, NotAPicture) as error:
        raise ToolFailed(f"The picture cannot be made: {error}") from error
    facts = {"prompt": prompt, "seed": str(seed), "model": served or model}
    return await write_picture(ctx, path, png, facts)


async def _draw(ctx: Context, path: str, drawing: dict[str, Any] | None) -> Picture:
    """Call the tool that has this kind of drawing."""
    if drawing is None:
        raise ToolFailed("There is nothing to draw: set `drawing` to the input of image.chart.")
    diagrams = ("flow", "tree", "timeline", "table")
    name = "image.diagram" if drawing.get("kind") in diagrams else "image.chart"
    return Picture.model_validate(await ctx.call(name, {**drawing, "path": path}, at="draw"))


def _seed(ctx: Context, prompt: str) -> int:
    """Return a seed that a resumed run finds again, and another run does not have."""
    digest = hashlib.sha256(f"{ctx.run}/{ctx.path}/{prompt}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def _is_missing(error: ModelRefused) -> bool:
    body = error.body.get("error") if isinstance(error.body, dict) else None
    return isinstance(body, dict) and body.get("code") == "no_capable_expert"
