"""A diagram of data, drawn without a model."""

from typing import Annotated

from pydantic import Field

from pipecatapp.tools.images.drawing.diagram_data import DiagramData
from pipecatapp.tools.images.drawing.diagrams import draw_diagram
from pipecatapp.tools.images.picture import NEEDS, Picture, write_drawing
from pipecatapp.workflow import Context, tool


@tool("image.diagram", effect="workspace", version=1, needs=NEEDS)
async def diagram(
    ctx: Context,
    path: Annotated[str, Field(description="The PNG in the workspace; ends in .png.")],
    data: DiagramData,
) -> Picture:
    """Draw a flow, tree, timeline or table as PNG; the layout is automatic, no model is needed."""
    prompt = data.model_dump_json(exclude_defaults=True, by_alias=True)
    return await write_drawing(ctx, path, lambda: draw_diagram(data), data.scale, prompt)
