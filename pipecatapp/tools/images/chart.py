"""A chart of data, drawn without a model."""

from typing import Annotated

from pydantic import Field

from pipecatapp.tools.images.csv_file import Combine, Every, with_file
from pipecatapp.tools.images.drawing.charts import draw_chart
from pipecatapp.tools.images.drawing.data import ChartData, WrongData
from pipecatapp.tools.images.picture import NEEDS, Picture, write_drawing
from pipecatapp.workflow import Context, ToolFailed, tool


@tool("image.chart", effect="workspace", version=1, needs=NEEDS)
async def chart(
    ctx: Context,
    path: Annotated[str, Field(description="The PNG in the workspace; ends in .png.")],
    data: ChartData,
    file: Annotated[
        str, Field(description="A CSV file of the workspace with the values, instead of `series`.")
    ] = "",
    x: Annotated[
        str, Field(description="Its column with the labels; the first one by default.")
    ] = "",
    y: Annotated[
        list[str], Field(description="Its columns with values; all numbers by default.")
    ] = [],  # noqa: B006
    every: Annotated[
        Every | None,
        Field(description="Combine the values of each hour, day, week, month or year."),
    ] = None,
    combine: Annotated[Combine, Field(description="How: sum, mean, min, max or last.")] = "sum",
) -> Picture:
    """Draw a bar, line, area, scatter or pie chart or a histogram as PNG; no model is needed."""
    if file:
        read = await ctx.call("file.read", {"path": file}, at="read")
        if read["next"] is not None:
            raise ToolFailed(f"{file!r} has more than 4 MiB: reduce it first.")
        try:
            data = with_file(data, read["text"], x, y, every, combine)
        except WrongData as error:
            raise ToolFailed(f"{file!r} cannot be drawn. {error}") from error
    prompt = data.model_dump_json(exclude_defaults=True)
    return await write_drawing(ctx, path, lambda: draw_chart(data), data.scale, prompt)
