"""The graph of a plan, for the page and the shell."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Frozen(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
    )


class GraphNode(Frozen):
    path: str
    id: str
    label: str
    kind: Literal["use", "steps", "graph", "if", "agent", "goto"]
    use: str
    parent: str
    about: str
    loop: str = ""
    """How it repeats, in words: `for each, 3 at a time`, `until, 5 at most`."""


class GraphEdge(Frozen):
    origin: str = Field(alias="from")
    to: str
    kind: Literal["data", "order", "jump"]


class Graph(Frozen):
    """Nodes by path, with edges for data and for order; for the page."""

    nodes: list[GraphNode]
    edges: list[GraphEdge]
