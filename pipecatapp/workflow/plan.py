"""A plan: a workflow that has been checked and composed, frozen, ready to run or to be shown.

It holds everything a run needs except the tools themselves, so a run that is resumed after its
documents were edited goes on with what it began with. Its canonical JSON is stored with the run.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from pipecatapp.workflow.tool import Effect

Kind = Literal["use", "steps", "graph", "workflow", "agent"]


class Frozen(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
    )


class PlanNode(Frozen):
    """One node. `hard` and `soft` name the siblings it waits for; a skipped hard one skips it too."""

    id: str
    kind: Kind
    use: str = ""
    version: int = 0
    effect: Effect | None = None
    when: Any = None
    unless: str | None = None
    """The node whose `else` list it stands in: it runs when that one's `if` was false."""
    hard: tuple[str, ...] = ()
    soft: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    given: dict[str, Any] = {}
    model: str | None = None
    takes_model: bool = False
    takes_messages: bool = False
    system: str = ""
    returns: Any = None
    timeout: float | None = None
    stream: bool = False
    tags: tuple[str, ...] = ()
    about: str = ""
    nodes: tuple["PlanNode", ...] = ()


class PlanOutput(Frozen):
    value: Any
    type: Any = "any"


class Body(Frozen):
    """One workflow of a plan: the scope of its nodes, with typed inputs and outputs."""

    id: str
    version: int
    about: str = ""
    order: Literal["steps", "graph"]
    nodes: tuple[PlanNode, ...]
    inputs: dict[str, "PlanInput"]
    outputs: dict[str, PlanOutput]


class PlanInput(Frozen):
    type: Any
    default: Any = None
    required: bool = False
    about: str = ""


class Limits(Frozen):
    """Sums over a whole run, restarts included. None is no limit."""

    nodes: int | None = 1000
    wall: float | None = None
    tokens: int | None = None


class GraphNode(Frozen):
    path: str
    id: str
    label: str
    kind: Literal["use", "steps", "graph", "if", "agent"]
    use: str
    parent: str
    about: str


class GraphEdge(Frozen):
    origin: str = Field(alias="from")
    to: str
    kind: Literal["data", "order"]


class Graph(Frozen):
    """Nodes by path and what flows between them; for the page."""

    nodes: list[GraphNode]
    edges: list[GraphEdge]


class Plan(Frozen):
    """Frozen; `canonical()` is what a run keeps."""

    format: Literal[1] = 1
    workflow: str
    bodies: dict[str, Body]
    roles: dict[str, str]
    limits: Limits
