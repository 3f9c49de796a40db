"""Draw diagrams."""

from pipecatapp.tools.images.drawing.diagram_data import DiagramData
from pipecatapp.tools.images.drawing.flow import draw_graph
from pipecatapp.tools.images.drawing.svg import Svg
from pipecatapp.tools.images.drawing.table import draw_table
from pipecatapp.tools.images.drawing.timeline import draw_timeline


def draw_diagram(data: DiagramData) -> Svg:
    """Draw a diagram. Raises `WrongData`."""
    if data.kind == "timeline":
        return draw_timeline(data)
    return draw_table(data) if data.kind == "table" else draw_graph(data)
