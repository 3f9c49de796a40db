"""`/api/plan`: what a workflow would do, and what is wrong in it, without running it."""

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field

from pipecatapp.api.access import known_caller
from pipecatapp.api.parts import WithParts
from pipecatapp.runs import Document, Explained, Planned
from pipecatapp.workflow import flat_text

router = APIRouter(prefix="/api/plan", dependencies=[Depends(known_caller)])


@router.post("")
async def show_plan(body: Document, parts: WithParts) -> Planned:
    """The graph, or the diagnostics: a wrong document is an answer here and no error."""
    return parts.runs.planned(body)


class Question(Document):
    """`path` names a field: `split/writer.model`, or `.limits.nodes` of the workflow."""

    path: str = Field(min_length=1, max_length=1000)


class Explanation(BaseModel):
    """All that is said of a field, the winner first."""

    opinions: list[Explained]


class Flat(BaseModel):
    """A workflow without layers, as YAML."""

    document: str


@router.post("/explain")
async def explain_field(body: Question, parts: WithParts) -> Explanation:
    """Which layer, variant or document says what of a field, and where."""
    document = Document.model_validate(body.model_dump(exclude={"path"}))
    return Explanation(opinions=parts.runs.explained(document, body.path))


@router.post("/flat")
async def show_flat(body: Document, parts: WithParts) -> Flat:
    """The workflow that comes of a document and its layers, written out."""
    return Flat(document=flat_text(parts.runs.composition(body)))
