"""Write documents of this instance to a bundle, and take those of another one."""

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, cast

from pydantic import BaseModel

from pipecatapp.application.bundles.archive import (
    PLACES,
    Bundle,
    BundledDocument,
    Kind,
    read_bundle,
    write_bundle,
)
from pipecatapp.application.bundles.signing import Keys, fingerprint
from pipecatapp.application.documents.editing import difference
from pipecatapp.application.documents.files import load_prompt
from pipecatapp.application.documents.service import DocumentService
from pipecatapp.application.library.projects import load_project
from pipecatapp.application.library.service import LibraryService
from pipecatapp.application.runs import RunService
from pipecatapp.records.nodes import nodes_of
from pipecatapp.records.tasks import StoredTasks, UnknownTask
from pipecatapp.workflow import Effect, InvalidDocument, Workflow, read_document, read_layer

RUNNABLE: Final = ("workflow", "task")
State = Literal["new", "same", "changed"]
Texts = dict[tuple[Kind, str], str]


class UnknownDocument(LookupError):
    """There is no such document to export; the message names it."""


class NotTrusted(PermissionError):
    """Nobody has trusted the key of the bundle here; the message has its fingerprint."""


class NotUsable(ValueError):
    """Documents of the bundle cannot be used here; the message has all problems."""


class ImportPreview(BaseModel):
    """One document of a bundle, compared with the one that is here."""

    kind: Kind
    id: str
    state: State
    diff: str
    """The unified diff from the document here to that of the bundle; empty for an equal one."""
    effects: list[Effect] = []
    """Of a workflow: the effects that its runs may have."""
    problems: list[str] = []
    """Why it cannot be used here, with line numbers."""

    @property
    def name(self) -> str:
        return f"{self.kind}/{self.id}"


class BundlePreview(BaseModel):
    """The signer of a bundle, and the changes that an import would make."""

    key: str
    fingerprint: str
    trusted: bool
    hearth: str
    """The version that wrote it."""
    documents: list[ImportPreview]


class TrustedKey(BaseModel):
    """A key whose bundles a person trusts."""

    fingerprint: str
    since: str


class KeyList(BaseModel):
    """The keys of bundles that this instance knows."""

    own: str | None
    """The fingerprint of this instance; None until its first export."""
    trusted: list[TrustedKey]


class Imported(BaseModel):
    """The names of documents that an import stored, and of those that it left as they were."""

    stored: list[str]
    kept: list[str]


class BundleService:
    """The bundles of one instance; `root` is its state directory."""

    def __init__(self, runs: RunService, library: LibraryService, root: Path) -> None:
        self._runs, self._library, self._root = runs, library, root
        self._documents, self._keys = DocumentService(runs, root), Keys(root)
        self._tasks = StoredTasks(runs.engine.ledger)

    def export(self, names: Sequence[str]) -> bytes:
        """Return a bundle of documents, with those of this instance that they need.

        A name is `workflow/x`, `task/x`, `layer/x`, `prompt/x`, `project/x`, or `x` for a workflow
        or task. Documents that come with Hearth are left out unless they are named. Raises
        `UnknownDocument`.
        """
        texts: Texts = {}
        for name in names:
            kind, id = self._named(name)
            self._add(texts, kind, id, named=True)
        order = list(PLACES)
        return write_bundle(
            dict(sorted(texts.items(), key=lambda item: (order.index(item[0][0]), item[0][1]))),
            self._keys,
        )

    def keys(self) -> KeyList:
        """Return the fingerprints of the own key and of the trusted ones."""
        own, trusted = self._keys.listed()
        return KeyList(
            own=own and fingerprint(own),
            trusted=[
                TrustedKey(fingerprint=fingerprint(key), since=since)
                for key, since in trusted.items()
            ],
        )

    def preview(self, archive: bytes) -> BundlePreview:
        """Compare a bundle with this instance; raises `InvalidBundle` and `WrongSignature`."""
        bundle = read_bundle(archive)
        return BundlePreview(
            key=bundle.key,
            fingerprint=fingerprint(bundle.key),
            trusted=self._keys.is_trusted(bundle.key),
            hearth=bundle.manifest.hearth,
            documents=[self._preview(bundle, one) for one in bundle.manifest.documents],
        )

    async def take(
        self, archive: bytes, *, trust: str = "", replace: Collection[str] = ()
    ) -> Imported:
        """Store the new documents of a bundle, and those in `replace` (or all: `*`).

        `trust` is the fingerprint that a person has compared; its key is trusted from then on.
        Nothing is stored if a document to store has problems. Raises `InvalidBundle`,
        `WrongSignature`, `NotTrusted` and `InvalidDocument`.
        """
        preview = await asyncio.to_thread(self.preview, archive)
        if not preview.trusted and trust.upper() != preview.fingerprint:
            raise NotTrusted(
                f"Nobody has trusted the key of this bundle here. Compare its fingerprint, "
                f"{preview.fingerprint}, with its sender, then trust it."
            )
        wanted = [
            one
            for one in preview.documents
            if one.state == "new" or (one.state == "changed" and {one.name, "*"} & {*replace})
        ]
        if problems := [text for one in wanted for text in one.problems]:
            raise NotUsable("\n".join(problems))
        if not preview.trusted:
            self._keys.trust(preview.key)
        await self._store(wanted, read_bundle(archive).texts)
        stored = [one.name for one in wanted]
        return Imported(
            stored=stored,
            kept=[one.name for one in preview.documents if one.name not in stored],
        )

    def _named(self, name: str) -> tuple[Kind, str]:
        kind, slash, id = name.partition("/")
        if slash and kind in PLACES:
            return cast("Kind", kind), id
        return ("task" if self._is_task(name) else "workflow"), name

    def _is_task(self, id: str) -> bool:
        try:
            self._tasks.get(id)
        except UnknownTask:
            return False
        return True

    def _add(self, texts: Texts, kind: Kind, id: str, *, named: bool = False) -> None:
        """Add a document and all that it needs; a shipped one only if it is named."""
        if (kind, id) in texts:
            return
        text = self._here(kind, id)
        if text is None:
            raise UnknownDocument(f"There is no {kind} {id!r} to export.")
        if not named and self._is_shipped(kind, id):
            return
        texts[kind, id] = text
        if kind in ("workflow", "task"):
            for other_kind, other in self._needs(id):
                self._add(texts, other_kind, other)
        elif kind == "layer":
            self._add(texts, *self._named(read_layer(text, file="layer.yaml").document.of))

    def _needs(self, id: str) -> Iterator[tuple[Kind, str]]:
        """The documents that a workflow uses: those it extends and runs, prompts, project."""
        written = self._runs.documents.written[id].value
        if base := written.get("extends"):
            yield self._named(str(base))
        plan = self._runs.engine.plan(self._runs.known(id))
        for body in plan.bodies:
            if body != id:
                yield self._named(body)
        workflow = self._runs.engine.workflows[id]
        if workflow.document.project:
            yield "project", workflow.document.project
        for tags in prompt_tags(workflow):
            for prompt in self._runs.engine.prompts.values():
                if prompt.tags <= tags:
                    yield "prompt", prompt.id

    def _here(self, kind: Kind, id: str) -> str | None:
        """The text of a document of this instance; None if there is none."""
        runs = self._runs
        if kind in ("workflow", "task"):
            return self._documents.text(id).document if self._documents.knows(id) else None
        if kind == "layer":
            known = id in runs.documents.layers
            return self._documents.layer(id).document if known else None
        return self._library.stored_text("prompt" if kind == "prompt" else "project", id)

    def _is_shipped(self, kind: Kind, id: str) -> bool:
        if kind == "workflow":
            return not self._documents.text(id).kept
        return kind == "prompt" and not self._library.prompt(id).kept

    def _preview(self, bundle: Bundle, document: BundledDocument) -> ImportPreview:
        text = bundle.texts[document.name]
        here = self._here(document.kind, document.id)
        state: State = "new" if here is None else "same" if here == text else "changed"
        diff = "" if state == "same" else difference(here or "", text, file=document.place)
        effects, problems = self._checked(bundle, document, text)
        return ImportPreview(
            kind=document.kind,
            id=document.id,
            state=state,
            diff=diff,
            effects=effects,
            problems=problems,
        )

    def _checked(
        self, bundle: Bundle, document: BundledDocument, text: str
    ) -> tuple[list[Effect], list[str]]:
        """Return the effects of a document's runs, and why it cannot be used."""
        try:
            if document.kind == "prompt":
                load_prompt(text, file=document.place)
            elif document.kind == "project":
                load_project(text, file=document.place)
            elif document.kind == "layer":
                read_layer(text, file=document.place)
            else:
                return self._planned(bundle, document, text)
        except InvalidDocument as error:
            return [], [one.shown for one in error.diagnostics]
        return [], []

    def _planned(
        self, bundle: Bundle, document: BundledDocument, text: str
    ) -> tuple[list[Effect], list[str]]:
        """Compile a workflow among the documents of its bundle; raises `InvalidDocument`."""
        documents, others = self._runs.documents.beside(
            bundle.texts[one.name] for one in bundle.manifest.documents if one.kind in RUNNABLE
        )
        workflow = documents.workflow(read_document(text, file=document.place))
        plan = self._runs.engine.plan(
            workflow,
            others,
            {one.id: load_prompt(body, file=one.place) for one, body in bundle.of("prompt")},
            {one.id: load_project(body, file=one.place) for one, body in bundle.of("project")},
        )
        return sorted(plan.effects()), []

    async def _store(self, documents: Sequence[ImportPreview], texts: Mapping[str, str]) -> None:
        """Store checked documents, each after those that it needs."""
        by_kind = {kind: [one for one in documents if one.kind == kind] for kind in PLACES}
        for one in by_kind["project"]:
            self._library.keep_project(one.id, texts[one.name])
        for one in by_kind["prompt"]:
            self._library.keep_prompt(one.id, texts[one.name])
        for one in bases_first(by_kind["workflow"], texts):
            self._documents.adopt(one.id, texts[one.name])
        for one in bases_first(by_kind["task"], texts):
            await self._library.keep_task(texts[one.name])
        for one in by_kind["layer"]:
            self._documents.put_layer(one.id, texts[one.name], seen="*")


def bases_first(
    documents: Sequence[ImportPreview], texts: Mapping[str, str]
) -> list[ImportPreview]:
    """Sort workflows so that each comes after the one that it extends."""
    by_id, ordered = {one.id: one for one in documents}, dict[str, ImportPreview]()

    def add(document: ImportPreview) -> None:
        base = read_document(texts[document.name], file=document.name).value.get("extends")
        if base in by_id and base not in ordered and base != document.id:
            add(by_id[str(base)])
        ordered[document.id] = document

    for document in documents:
        add(document)
    return list(ordered.values())


def prompt_tags(workflow: Workflow) -> Iterator[frozenset[str]]:
    """Yield the tags by which each node of a workflow finds its prompts."""
    for _, node in nodes_of(workflow.document):
        if node.prompt:
            yield frozenset(node.prompt)
