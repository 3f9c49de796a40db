"""The nodes of a document, also those inside other nodes."""

from collections.abc import Iterator

from pipecatapp.workflow.syntax import Node, Path, WorkflowDocument


def nodes_of(document: WorkflowDocument) -> Iterator[tuple[Path, Node]]:
    """Yield every node of a workflow with its path in the document."""
    return _nodes((), document.steps, document.graph)


def _nodes(
    at: Path,
    steps: list[Node] | None,
    graph: list[Node] | None,
    otherwise: list[Node] | None = None,
) -> Iterator[tuple[Path, Node]]:
    for key, nodes in (("steps", steps), ("graph", graph), ("else", otherwise)):
        for index, node in enumerate(nodes or ()):
            path = (*at, key, index)
            yield path, node
            yield from _nodes(path, node.steps, node.graph, node.otherwise)
