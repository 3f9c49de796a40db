"""Runs as people handle them, over HTTP and in the shell alike: plan, start, list, look, cancel."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, Self

import structlog
from pydantic import BaseModel, ConfigDict, Field, model_validator

from pipecatapp.foresight import Foresight, Outlook
from pipecatapp.library.pages.plan import plan_text
from pipecatapp.library.runs import keeping
from pipecatapp.library.runs.comparing import RunDifference, compared
from pipecatapp.library.secrets import Secrets, missing
from pipecatapp.library.usda import usda_text
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
    RunSummary,
    RunView,
    Status,
    Workflow,
    Written,
    flat_text,
    granting,
    read_document,
    read_layer,
)
from pipecatapp.workflow.compiling.checks import apart
from pipecatapp.workflow.running.known import Known

log = structlog.get_logger()

FlatForm = Literal["yaml", "usda"]
"""How a composed workflow is written out."""

Beside = Callable[[str], Sequence[tuple[str, tuple[Any, ...]]]]
"""What is written with the beginning of a run, from the run's id; see `Engine.start`."""


class Document(BaseModel):
    """A workflow by its id, or the text of one; `file` is what its diagnostics call it."""

    model_config = ConfigDict(extra="forbid")

    workflow: str | None = None
    document: str | None = None
    file: str = Field(default="document.yaml", max_length=1000)
    layers: list[str] = Field(default_factory=list, max_length=50)
    """Names of layers or texts of some, the strongest last."""
    select: dict[str, str] = Field(default_factory=dict)
    """The choice of each variant."""
    allow: list[Effect] | None = None
    """The effects that its run may have; None for all that the document asks for."""

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.workflow is None) == (self.document is None):
            raise ValueError("give either a workflow or a document")
        return self


class Fork(BaseModel):
    """How a run is run again: with an edited document or a workflow instead of its own, with other
    inputs, from the step `at` on anew.
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
    """What keeps nothing from running, and is seldom meant."""
    text: str
    inputs: dict[str, Any] = {}
    outputs: dict[str, Any] = {}


class RunList(BaseModel):
    """`next` is the `before` of the following page; null on the last one."""

    runs: list[RunSummary]
    next: str | None


class Explained(BaseModel):
    """One opinion of a field; `place` is file, line and column."""

    path: str
    by: str
    what: str
    value: Any
    place: str


class Runs:
    """The runs of one engine, and the documents that may be started by name."""

    def __init__(
        self,
        engine: Engine,
        documents: Documents | None = None,
        secrets: Secrets | None = None,
    ) -> None:
        self.engine, self.documents, self._secrets = engine, documents or Documents(), secrets
        self._effects: dict[str, frozenset[Effect] | None] = {}
        self._effects_of: list[Workflow] = []

    def workflow(self, document: Document) -> Workflow:
        """Raises `UnknownWorkflow` for a name, `InvalidDocument` for a text."""
        if document.document is None and not (document.layers or document.select):
            return self.known(str(document.workflow))
        return self.documents.workflow(
            self._written(document), self._layers(document), document.select
        )

    def composition(self, document: Document) -> Composition:
        """What it is composed of; raises as `workflow` does."""
        return self.documents.composition(
            self._written(document), self._layers(document), document.select
        )

    def flat(self, document: Document, form: FlatForm = "yaml") -> str:
        """It without layers as YAML, or with all of them as a scene of OpenUSD."""
        if form == "yaml":
            return flat_text(self.composition(document))
        written, layers = self._written(document), self._layers(document)
        return usda_text(written, self.documents.written, layers=layers, select=document.select)

    def explained(self, document: Document, path: str) -> list[Explained]:
        """Who said what of a field, the winner first."""
        found = self.composition(document).explain(path)
        return [Explained(**asdict(opinion)) for opinion in found]

    def _granted(self, document: Document, plan: Plan) -> Plan:
        return plan if document.allow is None else granting(plan, document.allow)

    def _written(self, document: Document) -> Written:
        if document.document is not None:
            return read_document(document.document, file=document.file)
        name = str(document.workflow)
        if name not in self.documents.written:
            self.known(name)
        return self.documents.written[name]

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
        """Know a workflow from now on, and compose anew what extends it."""
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
        """The effects that a run of this workflow may have, as far as documents tell; None for one
        that cannot run. Asked often, so it is kept until a workflow changes."""
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
        """What would run; a wrong document is told, not raised."""
        try:
            workflow = self.workflow(document)
            plan = self._granted(document, self.engine.plan(workflow))
        except InvalidDocument as error:
            text = "\n".join(one.shown for one in error.diagnostics)
            return Planned(diagnostics=shown(error.diagnostics), text=text)
        return Planned(
            graph=plan.graph(),
            text=plan_text(plan),
            warnings=shown([*warnings_of(workflow, plan), *self._missing(workflow, plan)]),
            inputs=workflow.input_schema(),
            outputs=workflow.output_schema(),
        )

    def _missing(self, workflow: Workflow, plan: Plan) -> list[Diagnostic]:
        """Secrets that are not there now, of the workflow and of those it uses."""
        if (secrets := self._secrets) is None:
            return []
        known = {**self.engine.workflows, workflow.id: workflow}
        return [
            fault
            for body in plan.bodies.values()
            for fault in missing(known[body.id], (body.project or {}).get("secrets", {}), secrets)
        ]

    def foreseen(
        self,
        document: Document,
        inputs: dict[str, Any] | None,
        *,
        run: str | None = None,
        at: str | None = None,
    ) -> Outlook:
        """What a run would call and tell: as a new run, or as a fork of `run`, whose inputs it has
        where none are given. Raises `UnknownRun`, `InvalidInputs`, `InvalidDocument`.
        """
        engine, read, family = self.engine, self.engine.ledger.read, ""
        plan = self._granted(document, engine.plan(self.workflow(document)))
        if run is not None:
            origin, row = engine.run(run), read.run(run)
            family = row.family if row else ""
            old = {name: value for name, value in origin.inputs.items() if name in plan.body.inputs}
            inputs = old if inputs is None else inputs
        checked = engine.check_inputs(plan, inputs or {})
        known = Known(read, "", family, origin=run, rerun=at)
        return Foresight(plan, engine.tools, engine.facts, read, known).walk(checked)

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
    ) -> str:
        """Start a run and give its id; raises as `workflow` and `Engine.start` do.

        A workflow with an input `conversation` is told the one that it belongs to.
        """
        workflow = self.workflow(document)
        if conversation is not None and "conversation" in workflow.input_schema()["properties"]:
            inputs = {"conversation": conversation, **inputs}
        return await self.engine.start(
            self.engine.plan(workflow),
            inputs,
            conversation=conversation,
            caller=caller,
            grants=document.allow,
            listener=listener,
            answers=answers,
            interactive=interactive,
            beside=beside,
        )

    def check_inputs(self, workflow: str, inputs: dict[str, Any]) -> None:
        """Raises `UnknownWorkflow`, `InvalidDocument`, `InvalidInputs` for what does not fit."""
        self.engine.check_inputs(self.engine.plan(self.known(workflow)), inputs)

    async def fork(self, run: str, fork: Fork, *, caller: str = "") -> str:
        """Run a run again; gives the id of the new one. Raises as `workflow` and `Engine.fork`."""
        edited = fork.edited()
        plan = self.engine.plan(self.workflow(edited)) if edited else None
        return await self.engine.fork(
            run, plan=plan, inputs=fork.inputs, at=fork.at, answers=fork.answers, caller=caller
        )

    def page(
        self,
        *,
        limit: int,
        before: str | None = None,
        workflow: str | None = None,
        status: Status | None = None,
    ) -> RunList:
        """The last runs, newest first, from the one after `before`."""
        found = self.engine.runs(limit=limit + 1, before=before, workflow=workflow, status=status)
        return RunList(runs=found[:limit], next=found[limit - 1].id if len(found) > limit else None)

    def view(self, run: str) -> RunView:
        """Everything about one run; raises `UnknownRun`."""
        return self.engine.run(run)

    def compare(self, run: str, other: str) -> RunDifference:
        """What the second of two runs did otherwise; raises `UnknownRun`."""
        return compared(self.view(run), self.view(other))

    async def prune(self, days: float, *, keep: int, look: bool) -> list[str]:
        """Remove runs that ended more than `days` ago, but the `keep` newest; gives their ids."""
        moment = datetime.now(UTC) - timedelta(days=days)
        before = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return await keeping.prune(self.engine, before=before, keep=keep, look=look)

    def export(self, run: str) -> str:
        """A run as JSON lines; raises `UnknownRun`."""
        return "".join(f"{line}\n" for line in keeping.export(self.engine, run))

    async def take_in(self, lines: str) -> list[str]:
        """Import exported runs; raises `NotImported`."""
        return await keeping.take_in(self.engine, lines.split("\n"))

    def unfinished(self) -> list[str]:
        """Runs that have begun and not ended, in this process or one before it."""
        return self.engine.ledger.read.unfinished()

    def has_ended(self, run: str) -> bool:
        row = self.engine.ledger.read.run(run)
        return row is not None and row.ended is not None

    async def answer(self, run: str, path: str, value: Any, *, by: str) -> RunView:
        """Answer an open question; raises `UnknownRun`, `NotAsked`, `WrongAnswer`."""
        await self.engine.answer(run, path, value, by=by)
        return self.view(run)

    async def note(self, run: str, text: str, *, by: str) -> None:
        """Tell a run that has not ended something; raises `UnknownRun`."""
        await self.engine.note(run, text, by=by)

    async def cancel(self, run: str) -> RunView:
        """Stop a run; one that has ended stays as it ended."""
        self.view(run)
        await self.engine.cancel(run)
        return self.view(run)


def question_text(run: str, event: Event) -> str:
    """What is told to a caller whose run waits for a person; `event` is its `node.waiting`."""
    question = event.data["question"]
    choices = f" ({', '.join(question['choices'])})" if question.get("choices") else ""
    return (
        f"{question['text']}{choices}\n\nThe run {run} waits for this answer: on the web page under"
        f" #/runs/{run}, or with `hearth runs answer {run} {event.path} …`."
    )


def warnings_of(workflow: Workflow, plan: Plan) -> list[Diagnostic]:
    """What stands aside in a graph, where it stands."""
    places = {node.id: index for index, node in enumerate(workflow.document.graph or ())}
    mend = "Read it, name it in `needs`, or remove it"
    return [
        workflow.source.diagnostic(
            ("graph", places[name], "id") if name in places else ("graph",),
            f"{name!r} is connected with nothing that the workflow gives",
            mend,
        )
        for name in apart(plan.body)
    ]


def shown(diagnostics: Sequence[Diagnostic]) -> list[dict[str, Any]]:
    """As JSON; `said` is the whole line that a person reads."""
    return [{**asdict(one), "said": str(one)} for one in diagnostics]
