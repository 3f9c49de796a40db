"""`/api/plan`: what a workflow would do, and what is wrong in it, without running it."""

import asyncio
from typing import Any

from fastapi import Depends
from pydantic import BaseModel, Field

from pipecatapp.api.access import known_caller
from pipecatapp.api.parts import WithParts
from pipecatapp.api.routing import api_router
from pipecatapp.application.engine import WorkflowDocument
from pipecatapp.application.preview.dry_run import Preview
from pipecatapp.application.runs import CheckedDocument, Document, Explained, FlatForm, Planned

router = api_router("/api/plan", dependencies=[Depends(known_caller)])


@router.post("")
async def show_plan(body: CheckedDocument, parts: WithParts) -> Planned:
    """The graph, or the diagnostics: a wrong document is an answer here and no error."""
    return await asyncio.to_thread(parts.runs.planned, body)


class Question(Document):
    """`path` names a field: `split/writer.model`, or `.limits.nodes` of the workflow."""

    path: str = Field(min_length=1, max_length=1000)


class Explanation(BaseModel):
    """All values set for a field, the winner first."""

    opinions: list[Explained]


class Flatten(Document):
    """`format`: YAML without layers, or a scene of OpenUSD with all of them."""

    format: FlatForm = "yaml"


class Flat(BaseModel):
    """The text of a composed workflow."""

    document: str


class Look(Document):
    """A run to preview: with these inputs, or as a fork of `run` that is repeated from step `at`
    on."""

    inputs: dict[str, Any] | None = None
    run: str | None = Field(None, max_length=200)
    at: str | None = Field(None, max_length=1000)


@router.post("/cache")
async def show_dry_run(body: Look, parts: WithParts) -> Preview:
    """Return for each step whether it would be called or is cached, with the reason, and the
    prompts of models. Nothing is run.
    """
    document = Document.model_validate(body.model_dump(exclude={"inputs", "run", "at"}))
    runs, run, at = parts.runs, body.run, body.at
    return await asyncio.to_thread(lambda: runs.dry_run(document, body.inputs, run=run, at=at))


@router.get("/schema")
async def show_schema() -> dict[str, Any]:
    """The JSON Schema of workflow documents, for editors and forms."""
    return WorkflowDocument.model_json_schema()


@router.post("/explain")
async def explain_field(body: Question, parts: WithParts) -> Explanation:
    """Return the layers, variants and documents that set a field, with positions."""
    document = Document.model_validate(body.model_dump(exclude={"path"}))
    opinions = await asyncio.to_thread(parts.runs.explained, document, body.path)
    return Explanation(opinions=opinions)


@router.post("/flat")
async def show_flat(body: Flatten, parts: WithParts) -> Flat:
    """Return the workflow composed of a document and its layers, as text."""
    document = Document.model_validate(body.model_dump(exclude={"format"}))
    return Flat(document=await asyncio.to_thread(parts.runs.flat, document, body.format))
