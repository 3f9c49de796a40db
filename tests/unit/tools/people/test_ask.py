"""The tool `human.ask`; that a run rests meanwhile is shown in tests/integration/workflow."""

from collections.abc import Mapping
from typing import Any

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context, Question, Reply, ToolFailed

ASK = TOOLS["human.ask"]


def answering(value: Any, asked: list[Question]) -> Context:
    async def person(question: Question) -> Reply:
        asked.append(question)
        return Reply(value=value, by="ada", at="2026-01-01T00:00:00Z")

    return Context(questions=person)


async def test_ask_passes_the_question_on_and_says_who_answered() -> None:
    """A decision without a name behind it cannot be asked about later."""
    asked: list[Question] = []
    given = {"question": "Go on?", "choices": ["yes", "no"], "show": {"diff": "+1"}, "after": 60}

    told = await ASK.check(answering("yes", asked), given)

    assert told == {"answer": "yes", "by": "ada", "at": "2026-01-01T00:00:00Z"}
    (question,) = asked
    assert (question.text, question.choices, question.after) == ("Go on?", ["yes", "no"], 60)
    assert question.show == {"diff": "+1"}
    assert "otherwise" not in question.model_fields_set


async def test_ask_gives_an_answer_for_silence_only_when_the_document_has_one() -> None:
    """There are no silent defaults."""
    asked: list[Question] = []

    await ASK.check(answering("no", asked), {"question": "x", "after": 1, "otherwise": "no"})

    assert "otherwise" in asked[0].model_fields_set
    assert asked[0].otherwise == "no"


async def test_ask_without_anybody_fails() -> None:
    """A tool that is called by hand must not wait for ever."""
    with pytest.raises(ToolFailed, match="Nobody"):
        await ASK.check(Context(), {"question": "x"})


@pytest.mark.parametrize("answer", ["yes", "maybe"])
async def test_model_that_answers_for_a_person_is_marked_as_one(answer: str) -> None:
    """Whoever reads the run must see that nobody looked."""
    calls: list[tuple[str, str, Any]] = []

    async def inner(tool: str, given: Mapping[str, Any], *, at: str, say: Any) -> dict[str, Any]:
        calls.append((tool, at, given["returns"]))
        return {"value": {"answer": answer}, "attempts": 1, "model": "small"}

    ctx = Context(run="r", inner=inner)
    given = {"question": "Go on?", "choices": ["yes", "no"], "by": "llm"}

    if answer == "yes":
        assert await ASK.check(ctx, given) == {"answer": "yes", "by": "model small", "at": ""}
    else:
        with pytest.raises(ToolFailed, match="none of the choices"):
            await ASK.check(ctx, given)
    assert calls == [("llm.json", "model", {"answer": "one of yes, no"})]
