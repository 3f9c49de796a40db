"""From texts to workflows: read, composed with what they extend and their layers, checked."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pipecatapp.workflow.document.diagnostic import InvalidDocument
from pipecatapp.workflow.document.loading import Workflow, checked_document
from pipecatapp.workflow.document.yaml_text import read_yaml
from pipecatapp.workflow.layers import Composition, Layer, Written, compose
from pipecatapp.workflow.layers.composing import OWN


def read_document(text: str, *, file: str) -> Written:
    """A workflow as it stands in a text; raises `InvalidDocument` for what is no YAML object."""
    value, source = read_yaml(text, file=file)
    if not isinstance(value, dict):
        told = "a workflow is an object with `id` and `steps` or `graph`"
        raise InvalidDocument([source.diagnostic((), told)])
    return Written(value, source)


@dataclass
class Documents:
    """Workflows as they were written, by id, and the layers there are for them."""

    written: dict[str, Written] = field(default_factory=dict)
    layers: dict[str, Layer] = field(default_factory=dict)

    def add(self, written: Written) -> None:
        """Another workflow may extend this one."""
        self.written[str(written.value.get("id"))] = written

    def composition(
        self,
        written: Written,
        layers: Sequence[Layer] = (),
        select: Mapping[str, str] | None = None,
    ) -> Composition:
        """What comes of a workflow, its variants and layers; raises `InvalidDocument`."""
        return compose(written, self.written, layers=layers, select=select)

    def workflow(
        self,
        written: Written,
        layers: Sequence[Layer] = (),
        select: Mapping[str, str] | None = None,
    ) -> Workflow:
        """The same, checked; raises `InvalidDocument`."""
        if not layers and not select and not any(key in written.value for key in OWN):
            return checked_document(dict(written.value), written.source)
        composition = self.composition(written, layers, select)
        return checked_document(composition.value, composition.source)


def load_document(text: str, *, file: str, extends: Iterable[Written] = ()) -> Workflow:
    """Read a workflow; raises `InvalidDocument`."""
    documents = Documents()
    for base in extends:
        documents.add(base)
    return documents.workflow(read_document(text, file=file))
