"""From texts to workflows: read, composed with what they extend and their layers, checked."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from pipecatapp.workflow.document.diagnostic import InvalidDocument
from pipecatapp.workflow.document.loading import Workflow, checked_document
from pipecatapp.workflow.document.yaml_text import read_yaml
from pipecatapp.workflow.layers import Composition, Layer, Written, compose
from pipecatapp.workflow.layers.composing import OWN

SHORT: Final = 1 << 15
"""Characters of a text whose parsed form is kept for a while: a plan, a run and each resume read
the same text, and every character takes about 2 µs."""


def read_document(text: str, *, file: str) -> Written:
    """Parse a workflow; raises `InvalidDocument` if the text is not a YAML object."""
    return _kept(text, file) if len(text) <= SHORT else _parsed(text, file)


@lru_cache(64)
def _kept(text: str, file: str) -> Written:
    return _parsed(text, file)


def _parsed(text: str, file: str) -> Written:
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
        self.written = {**self.written, str(written.value.get("id")): written}

    def beside(self, texts: Iterable[str]) -> tuple["Documents", dict[str, Workflow]]:
        """Return these documents with additional ones, and the workflows of those. Invalid ones are
        omitted; they are reported when they are compiled themselves.
        """
        documents, workflows = Documents(self.written, self.layers), dict[str, Workflow]()
        more = [one for text in texts if (one := _readable(text)) is not None]
        for written in more:
            documents.add(written)
        for written in more:
            with suppress(InvalidDocument):
                workflow = documents.workflow(written)
                workflows[workflow.id] = workflow
        return documents, workflows

    def remove(self, id: str) -> None:
        """Know no workflow of this id, if there is one. The mapping is replaced, not changed:
        another thread may compile what it holds."""
        self.written = {name: one for name, one in self.written.items() if name != id}

    def composition(
        self,
        written: Written,
        layers: Sequence[Layer] = (),
        select: Mapping[str, str] | None = None,
    ) -> Composition:
        """Compose a workflow with its variants and layers; raises `InvalidDocument`."""
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


def _readable(text: str) -> Written | None:
    try:
        return read_document(text, file="document.yaml")
    except InvalidDocument:
        return None


def load_document(text: str, *, file: str, extends: Iterable[Written] = ()) -> Workflow:
    """Read a workflow; raises `InvalidDocument`."""
    documents = Documents()
    for base in extends:
        documents.add(base)
    return documents.workflow(read_document(text, file=file))
