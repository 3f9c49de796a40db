"""The data of a diagram."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from pipecatapp.tools.images.drawing.theme import ThemeName
from pipecatapp.workflow import ToolInputs

DiagramKind = Literal["flow", "tree", "timeline", "table"]
Shape = Literal["box", "round", "ellipse", "diamond", "database"]
Id = Annotated[str, Field(min_length=1, max_length=100)]
Text = Annotated[str, Field(max_length=200)]
Cell = Annotated[float, Field(allow_inf_nan=False)] | Annotated[str, Field(max_length=500)] | None


class Node(BaseModel):
    """A node of a flow or a tree."""

    model_config = ConfigDict(extra="forbid")

    id: Id = Field(description="The name that edges use.")
    label: Text = Field(default="", description="The text in it; its id by default.")
    shape: Shape = Field(default="box", description="box, round, ellipse, diamond or database.")
    group: Text = Field(default="", description="Nodes of one group have the same colour.")


class Edge(BaseModel):
    """An arrow from one node to another."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    source: Id = Field(alias="from", description="The node that it begins at.")
    target: Id = Field(alias="to", description="The node that it leads to.")
    label: Text = Field(default="", description="The text on it.")
    dashed: bool = Field(default=False, description="A dashed line.")


class Task(BaseModel):
    """A bar of a timeline, or a milestone if it has no end."""

    model_config = ConfigDict(extra="forbid")

    label: Text = Field(description="Its name.")
    start: Text = Field(description="A date or time, such as 2026-03-29 or 2026-03-29T14:00.")
    end: Text | None = Field(default=None, description="Its end; null for a milestone.")
    group: Text = Field(default="", description="Tasks of one group have the same colour.")


class DiagramData(ToolInputs):
    """A diagram: what it shows, and its texts."""

    kind: DiagramKind = Field(description="flow, tree, timeline or table.")
    title: Text = Field(default="", description="The heading.")
    subtitle: Text = Field(default="", description="A line below it.")
    nodes: list[Node] = Field(
        default=[],
        description="Of a flow or tree; nodes that only edges name need not be listed.",
        max_length=200,
    )
    edges: list[Edge] = Field(
        default=[],
        description="Of a flow; of a tree, from each parent to its children.",
        max_length=300,
    )
    direction: Literal["down", "right"] = Field(default="down", description="Of a flow or tree.")
    tasks: list[Task] = Field(default=[], description="Of a timeline.", max_length=200)
    columns: list[Text] = Field(default=[], description="Headings of a table.", max_length=30)
    rows: list[list[Cell]] = Field(default=[], description="Rows of a table.", max_length=500)
    theme: ThemeName = Field(default="light", description="light or dark.")
    scale: float = Field(
        2, description="Pixels of the picture for each of a drawing.", ge=0.5, le=4
    )
