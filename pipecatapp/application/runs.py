"""Plan, start, list, show, answer, fork and cancel runs."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Annotated, Any, Literal, Self

import structlog
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from pipecatapp.application import retention as keeping
from pipecatapp.application.comparison import RunDifference, compared
from pipecatapp.application.documents.files import load_prompt
from pipecatapp.application.documents.usda import usda_text
from pipecatapp.application.history import ledger_time
from pipecatapp.application.preview.dry_run import DryRun, Preview
from pipecatapp.application.preview.plan import plan_text
from pipecatapp.application.run_files import FilesOfRuns
from pipecatapp.application.tool_runs import UnknownTool, inputs_for, workflow_for
from pipecatapp.records.secrets import Secrets, missing
from pipecatapp.workflow import (
    Composition,
    Diagnostic,
    Documents,
    Effect,
    Engine,
    Event,
    Graph,
    InvalidDocument,
    Layer,
    Listener,
    Plan,
    Prompt,
    RunView,
    TodoItem,
    Tool,
    Workflow,
    Written,
    flat_text,
    granting,
    read_document,
    read_layer,
)
from pipecatapp.workflow.planning import Known
from pipecatapp.workflow.storage import presets
from pipecatapp.workflow.syntax import warnings_of

log = structlog.get_logger()

PromptId = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]*$", max_length=200)]
FlatForm = Literal["yaml", "usda"]
"""How a composed workflow is written out."""

Beside = Callable[[str], Sequence[tuple[str, tuple[Any, ...]]]]
"""Statements written in the transaction that starts a run, from its id; see `Engine.start`."""


class Document(BaseModel):
    """A workflow by its id, the text of one, or one call of a tool; `file` is what its diagnostics
    call it.
    """

    model_config = ConfigDict(extra="forbid")

    workflow: str | None = None
    document: str | None = None
    tool: str | None = Field(default=None, max_length=200)
    file: str = Field(default="document.yaml", max_length=1000)
    layers: list[str] = Field(default_factory=list, max_length=50)
    """Names of layers or texts of some, the strongest last."""
    select: dict[str, str] = Field(default_factory=dict)
    """The choice of each variant."""
    allow: list[Effect] | None = None
    """The effects that its run may have; None for all that the document requests."""
    restrict: bool = False
    """Start the run even if tools of its agents have other effects; calls of them fail."""
    prompts: dict[PromptId, str] = Field(default_factory=dict, max_length=20)
    """Prompt documents by id that its run uses instead of the stored ones."""

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if [self.workflow, self.document, self.tool].count(None) != 2:
            raise ValueError("name either a workflow, a document or a tool")
        return self


class CheckedDocument(Document):
    """A document to check; it may use and extend the workflows of the texts in `beside`."""

    beside: list[str] = Field(default_factory=list, max_length=200)


class Fork(BaseModel):
    """How a run is repeated: with an edited document or another workflow, with other inputs, or
    from the step `at` on.
    """

    model_config = ConfigDict(extra="forbid")

    workflow: str | None = None
    document: str | None = None
    file: str = Field(default="document.yaml", max_length=1000)
    layers: list[str] = Field(default_factory=list, max_length=50)
    select: dict[str, str] = Field(default_factory=dict)
    inputs: dict[str, Any] | None = None
    at: str | None = Field(None, max_length=1000)
    answers: dict[str, Any] = Field(default_factory=dict)

    def edited(self) -> Document | None:
        """The document to run instead of the one that was run."""
        if self.workflow is None and self.document is None:
            return None
        names = {"workflow", "document", "file", "layers", "select"}
        return Document.model_validate(self.model_dump(include=names))


class Planned(BaseModel):
    """The graph of a workflow, its readable form and the JSON Schemas of its two ends; or the
    diagnostics of a document that cannot run, and then nothing else.
    """

    graph: Graph | None = None
    diagnostics: list[dict[str, Any]] = []
    warnings: list[dict[str, Any]] = []
    """Warnings: the workflow can run, but probably not as intended."""
    text: str
    inputs: dict[str, Any] = {}
    outputs: dict[str, Any] = {}


class Explained(BaseModel):
    """One opinion of a field; `place` is file, line and column."""

    path: str
    by: str
    what: str
    value: Any
    place: str


class RunService:
    """The runs of one engine, and the documents that may be started by name."""

    def __init__(
        self,
        engine: Engine,
        documents: Documents | None = None,
        secrets: Secrets | None = None,
    ) -> None:
        self.engine, self.documents, self._secrets = engine, documents or Documents(), secrets
        self.files = FilesOfRuns(engine)
        self.on_start: Callable[[str], None] = lambda _run: None
        """Called with each run that is started or forked here."""
        self._effects: dict[str, frozenset[Effect] | None] = {}
        self._effects_of: list[Workflow] = []

    def workflow(self, document: Document, documents: Documents | None = None) -> Workflow:
        """Raises `UnknownWorkflow` for a name, `InvalidDocument` for a text."""
        if document.workflow is not None and not (document.layers or document.select):
            return self.known(document.workflow)
        return (documents or self.documents).workflow(
            self._written(document), self._layers(document), document.select
        )

    def composition(self, document: Document) -> Composition:
        """Return the composition of a document; raises as `workflow` does."""
        written, layers = self._written(document), self._layers(document)
        return self.documents.composition(written, layers, document.select)

    def flat(self, document: Document, form: FlatForm = "yaml") -> str:
        """It without layers as YAML, or with all of them as a scene of OpenUSD."""
        if form == "yaml":
            return flat_text(self.composition(document))
        written, layers = self._written(document), self._layers(document)
        return usda_text(written, self.documents.written, layers=layers, select=document.select)

    def explained(self, document: Document, path: str) -> list[Explained]:
        """Return all values set for a field with their documents, the winner first."""
        return [Explained(**asdict(one)) for one in self.composition(document).explain(path)]

    def _granted(self, document: Document, plan: Plan) -> Plan:
        if document.allow is None:
            return plan
        return granting(plan, document.allow, offered=not document.restrict)

    def _prompts(self, document: Document) -> dict[str, Prompt]:
        return {id: load_prompt(text, file=f"{id}.md") for id, text in document.prompts.items()}

    def _written(self, document: Document) -> Written:
        if document.document is not None:
            return read_document(document.document, file=document.file)
        if document.tool is not None:
            return self._written(self._as_document(document, self.tool(document.tool)))
        name = str(document.workflow)
        if name not in self.documents.written:
            self.known(name)
        return self.documents.written[name]

    def tool(self, name: str) -> Tool:
        """Return a tool; raises `UnknownTool` with the nearest name."""
        if name in self.engine.tools:
            return self.engine.tools[name]
        near = get_close_matches(name, self.engine.tools, n=1)
        question = f" Did you mean {near[0]!r}?" if near else " `hearth tools` lists them."
        raise UnknownTool(f"There is no tool {name!r}.{question}")

    def _call(self, document: Document, inputs: dict[str, Any]) -> tuple[Document, dict[str, Any]]:
        """Return the document and the inputs of the run of a tool; those of a workflow as they are.

        Raises `UnknownTool` and `InvalidInputs`.
        """
        if document.tool is None:
            return document, inputs
        tool = self.tool(document.tool)
        return self._as_document(document, tool, inputs), inputs_for(tool, inputs)

    @staticmethod
    def _as_document(
        document: Document, tool: Tool, given: Collection[str] | None = None
    ) -> Document:
        """Return the document of one call of a tool, with all inputs if none are named."""
        text = workflow_for(tool, tool.takes.model_fields if given is None else given)
        changes = {"tool": None, "document": text, "file": f"tool {tool.name}"}
        return document.model_copy(update=changes)

    def _layers(self, document: Document) -> list[Layer]:
        return [self._layer(layer, document) for layer in document.layers]

    def _layer(self, layer: str, document: Document) -> Layer:
        if "\n" in layer:
            return read_layer(layer, file="layer.yaml")
        if layer not in self.documents.layers:
            known = ", ".join(self.documents.layers) or "none"
            told = f"there is no layer {layer!r}. Known: {known}"
            raise InvalidDocument([Diagnostic(document.file, 1, 1, told)])
        return self.documents.layers[layer]

    def learn(self, written: Written) -> Workflow:
        """Register a workflow, and compose the workflows that extend it again."""
        self.documents.add(written)
        workflow = self.documents.workflow(written)
        self.engine.know(workflow)
        for other in list(self.documents.written.values()):
            if "extends" in other.value and other is not written:
                try:
                    self.engine.know(self.documents.workflow(other))
                except InvalidDocument as error:
                    log.warning("workflow_invalid", file=other.source.file, reason=str(error))
        return workflow

    def effects(self, name: str) -> frozenset[Effect] | None:
        """Return the effects that a run of this workflow may have according to its documents;
        None if it cannot run. Cached until a workflow changes."""
        now = list(self.engine.workflows.values())
        if len(now) != len(self._effects_of) or any(
            one is not other for one, other in zip(now, self._effects_of, strict=True)
        ):
            self._effects, self._effects_of = {}, now
        if name not in self._effects:
            try:
                self._effects[name] = frozenset(self.engine.plan(name).effects())
            except InvalidDocument:
                self._effects[name] = None
        return self._effects[name]

    def known(self, name: str) -> Workflow:
        """The workflow of that name; raises `UnknownWorkflow` with the near one."""
        self.engine.plan(name)
        return self.engine.workflows[name]

    def planned(self, document: Document) -> Planned:
        """Return the plan of a document; errors of the document are returned, not raised."""
        documents, others = self.documents.beside(getattr(document, "beside", ()))
        try:
            workflow = self.workflow(document, documents)
            prompts = self._prompts(document)
            plan = self._granted(document, self.engine.plan(workflow, others, prompts))
        except InvalidDocument as error:
            text = "\n".join(one.shown for one in error.diagnostics)
            return Planned(diagnostics=shown(error.diagnostics), text=text)
        known = {**self.engine.workflows, **others, workflow.id: workflow}
        typed = workflow if document.tool is None else self.tool(document.tool)
        return Planned(
            graph=plan.graph(),
            text=plan_text(plan),
            warnings=shown([*warnings_of(workflow, plan), *self._missing(plan, known)]),
            inputs=typed.input_schema(),
            outputs=typed.output_schema(),
        )

    def _missing(self, plan: Plan, known: Mapping[str, Workflow]) -> list[Diagnostic]:
        """Secrets that are not there now, of the workflow and of those it uses."""
        if (secrets := self._secrets) is None:
            return []
        return [
            fault
            for body in plan.bodies.values()
            for fault in missing(known[body.id], (body.project or {}).get("secrets", {}), secrets)
        ]

    def dry_run(
        self,
        document: Document,
        inputs: dict[str, Any] | None,
        *,
        run: str | None = None,
        at: str | None = None,
    ) -> Preview:
        """Return the preview of a new run, or of a fork of `run`, whose inputs are the default.
        Raises `UnknownRun`, `InvalidInputs`, `InvalidDocument`.
        """
        engine, read, family = self.engine, self.engine.ledger.read, ""
        if document.tool is not None:
            document, inputs = self._call(document, inputs or {})
        prompts = self._prompts(document)
        plan = engine.plan(self.workflow(document), prompts=prompts)
        plan = self._granted(document, plan)
        if run is not None:
            row = engine.row(run)
            family, given = row.family, read.value(row.inputs)
            old = {name: value for name, value in given.items() if name in plan.body.inputs}
            inputs = old if inputs is None else inputs
        checked = engine.check_inputs(plan, inputs or {})
        known = Known(read, "", family, origin=run, rerun=at)
        return DryRun(plan, engine.tools, engine.facts, read, known).walk(checked)

    async def start(
        self,
        document: Document,
        inputs: dict[str, Any],
        *,
        conversation: str | None = None,
        caller: str = "",
        listener: Listener | None = None,
        answers: dict[str, Any] | None = None,
        interactive: bool = True,
        beside: Beside = lambda _run: (),
        instead_of: str | None = None,
        files: Mapping[str, str] | None = None,
    ) -> str:
        """Start a run and return its id; raises as `workflow` and `Engine.start` do.

        A workflow with an input `conversation` receives the id of its conversation. `files` are
        uploads by their paths in the run's workspace; raises `NotUploaded`.
        """
        document, inputs = self._call(document, inputs)
        workflow, plan = await self._compiled(document)
        plan = await self.files.given_to(plan, files or {})
        if conversation is not None and "conversation" in workflow.input_schema()["properties"]:
            inputs = {"conversation": conversation, **inputs}
        run = await self.engine.start(
            self._granted(document, plan),
            inputs,
            conversation=conversation,
            caller=caller,
            listener=listener,
            answers=answers,
            interactive=interactive,
            beside=beside,
            instead_of=instead_of,
        )
        await self._started(run)
        return run

    async def _started(self, run: str) -> None:
        self.on_start(run)
        await self.files.keep(run)

    async def _compiled(self, document: Document) -> tuple[Workflow, Plan]:
        """Return a workflow and its plan, which is compiled in a thread unless it is cached."""

        def both() -> tuple[Workflow, Plan]:
            workflow = self.workflow(document)
            return workflow, self.engine.plan(workflow, prompts=self._prompts(document))

        as_kept = document.document is None and not (document.layers or document.select)
        if as_kept and not document.prompts and self.engine.is_compiled(str(document.workflow)):
            return both()
        return await asyncio.to_thread(both)

    def check_inputs(self, workflow: str, inputs: dict[str, Any]) -> None:
        """Raises `UnknownWorkflow`, `InvalidDocument`, `InvalidInputs` for what does not fit."""
        self.engine.check_inputs(self.engine.plan(self.known(workflow)), inputs)

    async def again(self, run: str, *, caller: str = "") -> str:
        """Start what `run` ran once more, with its inputs and answers, and take nothing over.

        The new run is in no conversation. Returns its id; raises `UnknownRun` and `InvalidInputs`.
        """
        row, read = self.engine.row(run), self.engine.ledger.read
        started = await self.engine.start(
            Plan.model_validate(read.value(row.plan)),
            read.value(row.inputs),
            caller=caller or row.caller,
            answers=presets(read, run),
            interactive=bool(row.interactive),
            beside=lambda name: [("UPDATE run SET owner = ? WHERE id = ?", (row.owner, name))],
        )
        await self._started(started)
        return started

    async def fork(self, run: str, fork: Fork, *, caller: str = "") -> str:
        """Repeat a run; returns the id of the new one. Raises as `workflow` and `Engine.fork`."""
        edited = fork.edited()
        plan = (await self._compiled(edited))[1] if edited else None
        if plan is not None:
            plan = self.files.inherited(
                plan, self.engine.ledger.read.value(self.engine.row(run).plan)
            )
        forked = await self.engine.fork(
            run, plan=plan, inputs=fork.inputs, at=fork.at, answers=fork.answers, caller=caller
        )
        await self._started(forked)
        return forked

    def view(self, run: str) -> RunView:
        """Everything about one run; raises `UnknownRun`. Slow for a large run: see `Engine.run`."""
        return self.engine.run(run)

    def compare(self, run: str, other: str) -> RunDifference:
        """Return the differences of two runs; raises `UnknownRun`."""
        return compared(self.engine, run, other)

    async def prune(self, days: float, *, keep: int, look: bool) -> list[str]:
        """Delete runs that ended more than `days` ago, except the `keep` newest; returns their
        ids."""
        before = str(ledger_time(datetime.now(UTC) - timedelta(days=days)))
        return await keeping.prune(self.engine, before=before, keep=keep, look=look)

    async def delete(self, runs: Sequence[str]) -> None:
        """Remove runs, all or none; raises `UnknownRun` and `RunUnfinished`."""
        await keeping.delete(self.engine, runs)

    def export(self, *runs: str) -> str:
        """Runs as JSON lines; raises `UnknownRun`."""
        lines = (line for run in runs for line in keeping.export(self.engine, run))
        return "".join(f"{line}\n" for line in lines)

    async def import_runs(self, lines: str) -> list[str]:
        """Import exported runs; raises `NotImported`."""
        return await keeping.import_runs(self.engine, lines.split("\n"))

    def unfinished(self) -> list[str]:
        """Return runs that have started and not ended, in this process or an earlier one."""
        return self.engine.ledger.read.unfinished()

    def has_ended(self, run: str) -> bool:
        row = self.engine.ledger.read.run(run)
        return row is not None and row.ended is not None

    async def answer(self, run: str, path: str, value: Any, *, by: str) -> None:
        """Answer an open question; raises `UnknownRun`, `NotAsked`, `WrongAnswer`."""
        await self.engine.answer(run, path, value, by=by)

    async def note(self, run: str, text: str, *, by: str) -> None:
        """Send a note to a run that has not ended; raises `UnknownRun`."""
        await self.engine.note(run, text, by=by)

    def todo(self, run: str) -> list[TodoItem]:
        """The to-do list of a run; raises `UnknownRun`."""
        return self.engine.todo(run)

    async def change_todo(self, run: str, *, strike: str | None, add: str | None, by: str) -> None:
        """Strike an item of the to-do list, or add one; raises as the engine's methods do."""
        if strike is not None:
            await self.engine.strike(run, strike, by=by)
        if add is not None:
            await self.engine.add_todo(run, add, by=by)

    async def cancel(self, run: str) -> None:
        """Stop a run; one that has ended stays as it ended. Raises `UnknownRun`."""
        await self.engine.cancel(run)


def question_text(run: str, event: Event) -> str:
    """Return the text for a caller whose run waits; `event` is its `node.waiting`."""
    question = event.data["question"]
    choices = f" ({', '.join(question['choices'])})" if question.get("choices") else ""
    return (
        f"{question['text']}{choices}\n\nThe run {run} waits for this answer: on the web page under"
        f" #/runs/{run}, or with `hearth runs answer {run} {event.path} …`."
    )


def shown(diagnostics: Sequence[Diagnostic]) -> list[dict[str, Any]]:
    """Return diagnostics as JSON; `said` is the complete message for people."""
    return [{**asdict(one), "said": str(one)} for one in diagnostics]
