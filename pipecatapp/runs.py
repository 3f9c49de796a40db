"""Runs as people handle them, over HTTP and in the shell alike: plan, start, list, look, cancel."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pipecatapp.workflow import (
    Diagnostic,
    Engine,
    Graph,
    InvalidDocument,
    Listener,
    RunSummary,
    RunView,
    Workflow,
    load_document,
    plan_text,
)


class Document(BaseModel):
    """A workflow by its id, or the text of one; `file` is what its diagnostics call it."""

    model_config = ConfigDict(extra="forbid")

    workflow: str | None = None
    document: str | None = None
    file: str = Field(default="document.yaml", max_length=1000)

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.workflow is None) == (self.document is None):
            raise ValueError("give either a workflow or a document")
        return self


class Planned(BaseModel):
    """The graph of a workflow, its readable form and the JSON Schemas of its two ends; or the
    diagnostics of a document that cannot run, and then nothing else.
    """

    graph: Graph | None = None
    diagnostics: list[dict[str, Any]] = []
    text: str
    inputs: dict[str, Any] = {}
    outputs: dict[str, Any] = {}


class RunList(BaseModel):
    """`next` is the `before` of the following page; null on the last one."""

    runs: list[RunSummary]
    next: str | None


class Runs:
    """The runs of one engine, and the workflows that may be started by name."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def workflow(self, document: Document) -> Workflow:
        """Raises `UnknownWorkflow` for a name, `InvalidDocument` for a text."""
        if document.document is not None:
            return load_document(document.document, file=document.file)
        return self.known(str(document.workflow))

    def known(self, name: str) -> Workflow:
        """The workflow of that name; raises `UnknownWorkflow` with the near one."""
        self.engine.plan(name)
        return self.engine.workflows[name]

    def planned(self, document: Document) -> Planned:
        """What would run; a wrong document is told, not raised."""
        try:
            workflow = self.workflow(document)
            plan = self.engine.plan(workflow)
        except InvalidDocument as error:
            return Planned(diagnostics=shown(error.diagnostics), text=str(error))
        return Planned(
            graph=plan.graph(),
            text=plan_text(plan),
            inputs=workflow.input_schema(),
            outputs=workflow.output_schema(),
        )

    async def start(
        self,
        document: Document,
        inputs: dict[str, Any],
        *,
        conversation: str | None = None,
        caller: str = "",
        listener: Listener | None = None,
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
            listener=listener,
        )

    def page(self, *, limit: int, before: str | None = None) -> RunList:
        """The last runs, newest first, from the one after `before`."""
        found = self.engine.runs(limit=limit + 1, before=before)
        return RunList(runs=found[:limit], next=found[limit - 1].id if len(found) > limit else None)

    def view(self, run: str) -> RunView:
        """Everything about one run; raises `UnknownRun`."""
        return self.engine.run(run)

    def unfinished(self) -> list[str]:
        """Runs that have begun and not ended, in this process or one before it."""
        return self.engine.ledger.read.unfinished()

    def has_ended(self, run: str) -> bool:
        row = self.engine.ledger.read.run(run)
        return row is not None and row.ended is not None

    async def cancel(self, run: str) -> RunView:
        """Stop a run; one that has ended stays as it ended."""
        self.view(run)
        await self.engine.cancel(run)
        return self.view(run)


def shown(diagnostics: Sequence[Diagnostic]) -> list[dict[str, Any]]:
    """As JSON; `said` is the whole line that a person reads."""
    return [{**asdict(one), "said": str(one)} for one in diagnostics]
