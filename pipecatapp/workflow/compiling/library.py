"""The objects that documents may name during compilation, and the positions of their nodes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pipecatapp.workflow.document import Diagnostic, Project, Prompt, Workflow
from pipecatapp.workflow.document.model import Node
from pipecatapp.workflow.document.yaml_text import Path
from pipecatapp.workflow.plan import Body, ModelChoice, PlanNode
from pipecatapp.workflow.tool import Tool


@dataclass
class Library:
    """The objects that documents may name, and the results of the compilation so far."""

    tools: Mapping[str, Tool]
    prompts: Sequence[Prompt]
    workflows: Mapping[str, Workflow]
    roles: Mapping[str, ModelChoice]
    projects: Mapping[str, Project] = field(default_factory=dict)
    bodies: dict[str, Body] = field(default_factory=dict)
    faults: list[Diagnostic] = field(default_factory=list)
    wanted: list[Workflow] = field(default_factory=list)
    """The workflow, then the workflows that it uses, each once."""
    renewed: list[tuple[Workflow, Path, PlanNode]] = field(default_factory=list)
    """Nodes that are repeated as a whole after a failure, with the position of `retry`."""

    def want(self, workflow: Workflow) -> None:
        """Add a workflow to be compiled."""
        if all(workflow.id != other.id for other in self.wanted):
            self.wanted.append(workflow)


@dataclass(frozen=True)
class Entry:
    """A node of a scope; nodes of an `else` list follow the node that they belong to."""

    path: Path
    node: Node
    unless: str | None = None


def flat(path: Path, nodes: Iterable[Node], unless: str | None = None) -> Iterator[Entry]:
    """Yield the nodes of a scope; nodes of `else` lists follow the node that they belong to."""
    for index, node in enumerate(nodes):
        yield Entry((*path, index), node, unless)
        yield from flat((*path, index, "else"), node.otherwise, node.id)
