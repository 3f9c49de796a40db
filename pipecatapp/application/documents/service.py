"""Show, edit, compare, save and remove workflow documents and layers."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from hearth.files import write_atomic
from pipecatapp.application.documents.editing import (
    DocumentChanged,
    NotEdited,
    Operation,
    UnknownLayer,
    difference,
    edited,
    fingerprint,
)
from pipecatapp.application.documents.files import SHIPPED
from pipecatapp.application.runs import Document, RunService, shown
from pipecatapp.records.tasks import StoredTasks, task_file
from pipecatapp.workflow import (
    Diagnostic,
    InvalidDocument,
    Layer,
    Written,
    flat_text,
    read_document,
    read_layer,
)
from pipecatapp.workflow.syntax import read_yaml


class DocumentText(BaseModel):
    """The text of a document's file; `kept` if the document is a user's, not a shipped one."""

    id: str
    file: str
    kept: bool
    etag: str
    document: str


class Edited(DocumentText):
    """The result of an edit with its diff; it is stored only if `saved`."""

    saved: bool
    diff: str
    diagnostics: list[dict[str, Any]]


class Change(BaseModel):
    """A field with different values in two documents; null where one does not set it."""

    path: str
    before: Any
    after: Any


class Difference(BaseModel):
    """`diff` compares the two flattened documents as text, `changes` by field."""

    diff: str
    changes: list[Change]


class LayerSummary(BaseModel):
    """One line in the list of layers; `of` is the workflow that it is about."""

    id: str
    of: str
    about: str
    file: str


class DocumentService:
    """The documents of one instance; changes are stored below `root` and take effect at once."""

    def __init__(self, runs: RunService, root: Path) -> None:
        self._runs, self._root, self._documents = runs, root, runs.documents

    def knows(self, name: str) -> bool:
        """Whether there is a workflow of this id."""
        return name in self._documents.written

    def text(self, name: str) -> DocumentText:
        """Return the text of a workflow.

        Raises `UnknownWorkflow`, and `DocumentChanged` if its file is missing.
        """
        if name not in self._documents.written:
            self._runs.known(name)
        file = self._documents.written[name].source.file
        if file == task_file(name):
            task = StoredTasks(self._runs.engine.ledger).get(name)
            return _text_of(name, file, task.document, kept=True)
        return self._told(name, Path(file))

    async def edit(
        self, name: str, operations: Sequence[Operation], *, seen: str, look: bool
    ) -> Edited:
        """Apply operations to a workflow; with `look`, or if the result is invalid, nothing is
        stored.

        `seen` is the ETag of the text for which the operations are meant. Raises `UnknownWorkflow`,
        `DocumentChanged`, `NotEdited`.
        """
        before = self.text(name)
        self._check(before, seen)
        _refuse_unreadable(before)
        # Hundreds of edits of a long text take seconds, which would block all runs.
        document = await asyncio.to_thread(edited, before.document, operations)
        now = self.text(name)
        self._check(now, before.etag)
        return await self._put(now, document, look=look)

    async def put(
        self, name: str, document: str, *, seen: str | None, look: bool = False
    ) -> Edited:
        """Keep a whole text as the workflow of this id; `seen` is None when there is none yet."""
        before = _text_of(name, str(self._root / "workflows" / f"{name}.yaml"), "", kept=True)
        if name in self._documents.written:
            before = self.text(name)
            self._check(before, seen)
        return await self._put(before, document, look=look)

    def adopt(self, name: str, document: str) -> None:
        """Store a text that was compiled together with other new ones, in the place of one that is
        there."""
        known = self.text(name) if name in self._documents.written else None
        own = self._root / "workflows" / f"{name}.yaml"
        file = Path(known.file) if known is not None and known.kept else own
        write_atomic(file, document)
        self._learn(document, file)

    def remove(self, name: str, *, seen: str) -> None:
        """Remove a stored workflow; a shipped one with the same id is used again."""
        text = self.text(name)
        self._check(text, seen)
        if not text.kept:
            raise DocumentChanged(f"The workflow {name!r} comes with Hearth and cannot be removed.")
        _refuse_task(text)
        Path(text.file).unlink()
        self._documents.remove(name)
        self._runs.engine.forget(name)
        shipped = SHIPPED / "workflows" / f"{name}.yaml"
        if shipped.is_file():
            self._learn(shipped.read_text(encoding="utf-8"), shipped)

    def compare(self, one: Document, other: Document) -> Difference:
        """Return the differences of two documents, composed with their layers."""
        first, second = self._runs.composition(one), self._runs.composition(other)
        before, after = dict(fields_of(first.value)), dict(fields_of(second.value))
        changes = [
            Change(path=path, before=before.get(path), after=after.get(path))
            for path in dict.fromkeys([*before, *after])
            if before.get(path) != after.get(path)
        ]
        name = str(second.value.get("id"))
        diff = difference(flat_text(first), flat_text(second), file=f"{name}.yaml")
        return Difference(diff=diff, changes=changes)

    def layers(self) -> list[LayerSummary]:
        """All layers there are, by id."""
        return [_summary(layer) for _, layer in sorted(self._documents.layers.items())]

    def layer(self, name: str) -> DocumentText:
        """Return the text of a layer; raises `UnknownLayer`."""
        if name not in self._documents.layers:
            raise UnknownLayer(f"There is no layer {name!r}.")
        return self._told(name, Path(self._documents.layers[name].source.file))

    def put_layer(self, name: str, document: str, *, seen: str | None) -> DocumentText:
        """Keep a layer; raises `InvalidDocument` for what is none, or of another id."""
        file = self._root / "layers" / f"{name}.yaml"
        if name in self._documents.layers:
            before = self.layer(name)
            self._check(before, seen)
            file = Path(before.file)
        layer = read_layer(document, file=str(file))
        _same_id(layer.id, name, str(file))
        write_atomic(file, document)
        self._documents.layers = {**self._documents.layers, name: layer}
        return self.layer(name)

    def remove_layer(self, name: str, *, seen: str) -> None:
        """Remove a layer; raises `UnknownLayer`, `DocumentChanged`."""
        text = self.layer(name)
        self._check(text, seen)
        Path(text.file).unlink()
        left = {id: layer for id, layer in self._documents.layers.items() if id != name}
        self._documents.layers = left

    def _told(self, name: str, file: Path) -> DocumentText:
        try:
            text = file.read_text(encoding="utf-8")
        except FileNotFoundError as error:
            raise DocumentChanged(
                f"{file}, where {name!r} stood, is gone: start Hearth again."
            ) from error
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidDocument([Diagnostic(str(file), 1, 1, f"not text: {error}")]) from error
        return _text_of(name, str(file), text, kept=file.is_relative_to(self._root))

    def _check(self, text: DocumentText, seen: str | None) -> None:
        if seen != "*" and seen != text.etag:
            raise DocumentChanged(
                f"{text.id!r} was changed since it was read: its ETag is {text.etag}."
            )

    async def _put(self, before: DocumentText, document: str, *, look: bool) -> Edited:
        """Store a text. A user's file keeps its name: a second file would have the same id."""
        name = before.id
        own = self._root / "workflows" / f"{name}.yaml"
        file = Path(before.file) if before.kept else own
        found = await asyncio.to_thread(self._compiled, name, document, file)
        faults = found if isinstance(found, list) else []
        if isinstance(found, Written) and not look:
            _refuse_task(before)
            if before.document or name in self._documents.written:
                self._check(self.text(name), before.etag)
            write_atomic(file, document)
            self._runs.learn(found)
            await asyncio.to_thread(self._runs.engine.plan, name)
        text = _text_of(name, str(file), document, kept=True)
        return Edited(
            **text.model_dump(),
            saved=not faults and not look,
            diff=difference(before.document, document, file=f"{name}.yaml"),
            diagnostics=shown(faults),
        )

    def _compiled(self, name: str, document: str, file: Path) -> Written | list[Diagnostic]:
        """The document, or what is wrong with it."""
        try:
            written = read_document(document, file=str(file))
            _same_id(str(written.value.get("id")), name, str(file))
            self._runs.engine.plan(self._documents.workflow(written))
        except InvalidDocument as error:
            return list(error.diagnostics)
        return written

    def _learn(self, document: str, file: Path) -> None:
        """Register a document, and compose the documents that extend it again."""
        self._runs.learn(read_document(document, file=str(file)))


def fields_of(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The fields of a document, nodes by their ids: `split/writer.with.text`, `.limits.nodes`."""
    for key, said in value.items():
        if key in ("steps", "graph", "else") and isinstance(said, list):
            for node in said:
                name = str(node.get("id")) if isinstance(node, dict) else str(node)
                outer = path if key != "else" else path.rpartition("/")[0]
                here = f"{outer}/{name}" if outer else name
                yield from fields_of(node, here) if isinstance(node, dict) else ()
        elif isinstance(said, dict) and said:
            yield from ((f"{path}.{key}.{name}", inner) for name, inner in said.items())
        else:
            yield f"{path}.{key}", said


def _text_of(name: str, file: str, text: str, *, kept: bool) -> DocumentText:
    return DocumentText(id=name, file=file, kept=kept, etag=fingerprint(text), document=text)


def _refuse_task(text: DocumentText) -> None:
    """Refuse a task: its versions are in the ledger, and the library stores or removes them."""
    if text.file == task_file(text.id):
        raise NotEdited(f"{text.id!r} is a stored task: keep it, or remove it, as a task.")


def _refuse_unreadable(text: DocumentText) -> None:
    """Refuse a text written by hand that operations cannot edit."""
    value, source = read_yaml(text.document, file=text.file)
    if not isinstance(value, dict):
        raise InvalidDocument([source.diagnostic((), "a workflow is an object with an `id`")])


def _summary(layer: Layer) -> LayerSummary:
    document = layer.document
    return LayerSummary(
        id=document.id, of=document.of, about=document.about, file=layer.source.file
    )


def _same_id(found: str, name: str, file: str) -> None:
    if found != name:
        problem = f"the id is {found!r}, but this is the place of {name!r}"
        raise InvalidDocument([Diagnostic(file, 1, 1, problem, f"Write `id: {name}`")])
