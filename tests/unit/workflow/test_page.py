"""The reference page of documents follows from the code."""

from pathlib import Path

from pipecatapp.workflow.document.model import (
    Defaults,
    Input,
    LimitsPart,
    Node,
    Output,
    WorkflowDocument,
)
from pipecatapp.workflow.document.shapes import SHORTHAND, shape
from tests.support.reference.workflows import documents_page

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "workflow-documents.md"


def test_page_is_current() -> None:
    """`make docs` was run after the last change of the models."""
    assert PAGE.read_text(encoding="utf-8") == documents_page()


def test_every_key_is_described() -> None:
    """A key without a word about it might as well not be there."""
    for model in (WorkflowDocument, Node, Input, Output, Defaults, LimitsPart):
        for name, field in model.model_fields.items():
            assert field.description, f"{model.__name__}.{name}"


def test_every_type_on_the_page_is_one() -> None:
    """What the page shows can be written as it stands there."""
    for word in SHORTHAND:
        written = {"title": "text", "pages": "integer?"} if word.startswith("{") else word
        assert shape(written).schema() is not None
