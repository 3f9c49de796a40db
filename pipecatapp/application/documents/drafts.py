"""Drafts: texts of workflows that are being edited, with undo and redo, before they are saved.

A draft is kept below the state directory until it is saved or discarded, so neither a reload nor a
restart loses it. All pages that edit a workflow share its draft.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from hearth.files import write_atomic
from pipecatapp.application.documents.editing import (
    DocumentChanged,
    Operation,
    ReplaceRange,
    edited,
    fingerprint,
)
from pipecatapp.application.documents.history import History
from pipecatapp.application.documents.outline import Outline, nodes_of, outline
from pipecatapp.application.documents.service import DocumentService, Edited
from pipecatapp.application.runs import CheckedDocument, RunService
from pipecatapp.workflow import InvalidDocument
from pipecatapp.workflow.syntax import Path as ValuePath
from pipecatapp.workflow.syntax import Source, read_yaml

EMPTY: Final = 'kind: workflow\nid: {name}\nversion: 1\nabout: ""\ngraph: []\n'


class DraftExists(Exception):
    """A workflow or draft of this name is there already."""


class StoredDraft(History):
    """A draft in its file; `base` is the ETag of the saved text that it began with, empty for a new
    workflow.
    """

    base: str = ""


class Draft(BaseModel):
    """A draft as an editor shows it. `graph` is null while the text is not YAML; a diagnostic has
    the `node` and `field` that it is about; `outdated` says that the workflow was saved by another
    program since the draft began.
    """

    id: str
    etag: str
    document: str
    stored: bool
    dirty: bool
    outdated: bool
    undo: int
    redo: int
    graph: Outline | None
    diagnostics: list[dict[str, Any]]
    warnings: list[dict[str, Any]]
    inputs: dict[str, Any]


class DraftSummary(BaseModel):
    """One line in the list of drafts."""

    id: str
    stored: bool


class DraftService:
    """The drafts of one instance."""

    def __init__(self, documents: DocumentService, runs: RunService, root: Path) -> None:
        self._documents, self._runs, self._folder = documents, runs, root / "drafts"

    def listed(self) -> list[DraftSummary]:
        """All drafts that differ from what is saved, by name."""
        names = sorted(file.stem for file in self._folder.glob("[!.]*.json"))
        return [
            DraftSummary(id=name, stored=self._documents.knows(name))
            for name in names
            if self._dirty(name, self._load(name))
        ]

    def etag(self, name: str) -> str:
        """The ETag of a draft's text, for pages that follow it."""
        return fingerprint(self._load(name).text)

    async def show(self, name: str) -> Draft:
        """Return a draft; without changes it is the saved text. Raises `UnknownWorkflow`."""
        return await self._shown(name, self._load(name))

    async def create(self, name: str, document: str | None) -> Draft:
        """Begin a workflow that is not there yet; raises `DraftExists`."""
        if self._documents.knows(name) or self._file(name).exists():
            raise DraftExists(f"There is a workflow {name!r} already: choose another name.")
        draft = StoredDraft(text=EMPTY.format(name=name) if document is None else document)
        self._keep(name, draft)
        return await self._shown(name, draft)

    async def replace(self, name: str, document: str, *, seen: str) -> Draft:
        """Replace the whole text; raises `DocumentChanged`."""
        draft = self._checked(name, seen)
        draft.change(document)
        self._keep(name, draft)
        return await self._shown(name, draft)

    async def edit(self, name: str, operations: Sequence[Operation], *, seen: str) -> Draft:
        """Apply operations, all or none, as one change. The result may be a text that cannot run.

        Raises `DocumentChanged`, `NotEdited`, and `InvalidDocument` if a text that is not YAML is
        edited by anything else than ranges.
        """
        before = self._checked(name, seen)
        if not isinstance(operations[0], ReplaceRange):
            value, source = read_yaml(before.text, file=f"{name}.yaml")
            if not isinstance(value, dict):
                raise InvalidDocument([source.diagnostic((), "a workflow is an object")])
        text = await asyncio.to_thread(edited, before.text, operations)
        draft = self._checked(name, fingerprint(before.text))
        draft.change(text)
        self._keep(name, draft)
        return await self._shown(name, draft)

    async def step(self, name: str, *, seen: str, back: bool) -> Draft:
        """Undo or redo one change; raises `NothingToUndo`, `DocumentChanged`."""
        draft = self._checked(name, seen)
        if back:
            draft.undo_change()
        else:
            draft.redo_change()
        self._keep(name, draft)
        return await self._shown(name, draft)

    async def save(self, name: str, *, seen: str, force: bool, look: bool) -> Edited:
        """Store the draft as the workflow; with `look` only the diff is returned. `force` replaces
        what another program saved meanwhile. Raises `DocumentChanged`.
        """
        draft = self._checked(name, seen)
        base = "*" if force or look else draft.base or None
        done = await self._documents.put(name, draft.text, seen=base, look=look)
        if done.saved:
            draft = self._load(name)
            draft.base = done.etag
            self._keep(name, draft)
        return done

    def discard(self, name: str, *, seen: str) -> None:
        """Remove a draft with its history; the saved workflow stays."""
        self._checked(name, seen)
        self._file(name).unlink(missing_ok=True)

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}.json"

    def _load(self, name: str) -> StoredDraft:
        """Return the draft. One without changes follows the saved text."""
        file, known = self._file(name), self._documents.knows(name)
        saved = self._documents.text(name) if known or not file.exists() else None
        if not file.exists() and saved is not None:
            return StoredDraft(text=saved.document, base=saved.etag)
        draft = StoredDraft.model_validate_json(file.read_bytes())
        if (
            saved
            and draft.base != saved.etag
            and fingerprint(draft.text) in (draft.base, saved.etag)
        ):
            draft.change(saved.document)
            draft.base = saved.etag
        return draft

    def _checked(self, name: str, seen: str) -> StoredDraft:
        draft = self._load(name)
        if seen not in ("*", fingerprint(draft.text)):
            raise DocumentChanged(
                f"The draft of {name!r} was changed in another window. Look at it, and try again."
            )
        return draft

    def _keep(self, name: str, draft: StoredDraft) -> None:
        self._folder.mkdir(exist_ok=True)
        write_atomic(self._file(name), draft.model_dump_json(), mode=0o600)

    def _dirty(self, name: str, draft: StoredDraft) -> bool:
        saved = self._documents.text(name).document if self._documents.knows(name) else None
        return draft.text != saved

    async def _shown(self, name: str, draft: StoredDraft) -> Draft:
        stored = self._documents.knows(name)
        outdated = stored and self._documents.text(name).etag != draft.base
        checked = CheckedDocument(document=draft.text, file=f"{name}.yaml")
        planned = await asyncio.to_thread(self._runs.planned, checked)
        value, source = _read(draft.text, name)
        return Draft(
            id=name,
            etag=fingerprint(draft.text),
            document=draft.text,
            stored=stored,
            dirty=self._dirty(name, draft),
            outdated=outdated,
            undo=len(draft.undo),
            redo=len(draft.redo),
            graph=None if source is None else outline(value, source),
            diagnostics=[_placed(each, value, source) for each in planned.diagnostics],
            warnings=[_placed(each, value, source) for each in planned.warnings],
            inputs=planned.inputs,
        )


def _read(text: str, name: str) -> tuple[dict[str, Any], Source | None]:
    """Return the values of a text; no source where it is not an object in YAML."""
    try:
        value, source = read_yaml(text, file=f"{name}.yaml")
    except InvalidDocument:
        return {}, None
    return (value, source) if isinstance(value, dict) else ({}, None)


def _placed(
    diagnostic: dict[str, Any], value: dict[str, Any], source: Source | None
) -> dict[str, Any]:
    """Add the node and the field that a diagnostic is about, empty where it is about neither."""
    at = (diagnostic["line"] - 1, diagnostic["column"] - 1)
    paths: list[ValuePath] = []
    if source is not None:
        paths = [
            path for places in (source.keys, source.values) for path in places if places[path] == at
        ]
    longest = max(paths, key=len, default=())
    inside = [each for each in nodes_of(value) if longest[: len(each.at)] == each.at]
    node = max(inside, key=lambda each: len(each.at), default=None)
    rest = longest[len(node.at) :] if node else longest
    return {
        **diagnostic,
        "node": node.path if node else "",
        "field": ".".join(str(part) for part in rest),
    }
