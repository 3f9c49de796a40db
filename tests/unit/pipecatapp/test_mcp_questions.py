"""Questions of a run as forms of an MCP client."""

from typing import Any

import pytest

from pipecatapp.api.mcp.questions import Asked, form_of, read_state
from pipecatapp.application.engine import Event


def waiting(**question: Any) -> Event:
    """The event of a question."""
    data = {"question": {"text": "May it?", "returns": None, **question}}
    at = "2026-11-29T00:00:00.000Z"
    return Event(seq=7, run="r", at=at, type="node.waiting", path="sure", data=data)


@pytest.mark.parametrize(
    ("question", "field"),
    [
        ({}, {"type": "string"}),
        ({"choices": ["yes", "no"]}, {"type": "string", "enum": ["yes", "no"]}),
        ({"returns": "integer"}, {"type": "integer"}),
        ({"returns": "boolean"}, {"type": "boolean"}),
    ],
)
def test_question_is_a_form_with_one_field(question: dict[str, Any], field: dict[str, Any]) -> None:
    """The client shows a field of the right kind, and returns a value that the run accepts."""
    form = form_of(waiting(**question))

    assert form is not None
    assert form.message == "May it?"
    assert form.requested_schema["required"] == ["answer"]
    assert form.requested_schema["properties"] == {"answer": {"title": "Answer", **field}}


@pytest.mark.parametrize(
    "question",
    [{"by_voice": False}, {"returns": "object"}, {"returns": {"a": "text"}}, {"returns": "text?"}],
)
def test_lock_or_payment_and_answer_without_a_field_are_left_to_the_page(
    question: dict[str, Any],
) -> None:
    """A program that answers for its person must not open a door."""
    assert form_of(waiting(**question)) is None


def test_data_of_a_question_is_shown_as_a_whole_or_on_the_page() -> None:
    """A person decides on what they see; the end of a long input may be what matters."""
    form = form_of(waiting(show={"input": "milk"}))

    assert form is not None
    assert form.message == 'May it?\n\n{\n "input": "milk"\n}'
    assert form_of(waiting(show={"input": "x" * 10_000})) is None


def test_state_leads_back_to_the_question() -> None:
    """The answer comes with a later request, perhaps after a restart."""
    asked = Asked("r", "sure", 7)

    assert read_state(asked.text()) == asked
