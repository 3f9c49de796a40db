"""Tools: the function is the declaration, and both sides of a call are checked."""

from dataclasses import replace
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from pipecatapp.workflow import (
    BY_AUTHOR,
    Context,
    Package,
    Program,
    ServiceMissing,
    ToolFailed,
    ToolInputs,
    ToolMistake,
    tool,
)
from pipecatapp.workflow.tool import InputRefused, OutputRefused, ToolUnavailable
from tests.unit.workflow.tools import Text

CALLS: list[dict[str, Any]] = []


class Count(BaseModel):
    words: int = Field(ge=0, description="How many.")


@tool("text.count", effect="pure", version=3)
async def count(
    ctx: Context,
    text: Annotated[str, Field(min_length=1, description="What to count.")],
    lie: bool = False,  # noqa: FBT001, FBT002
) -> Count:
    """Count the words of a text."""
    CALLS.append({"text": text})
    words = len(text.split())
    return Count.model_construct(words=-words) if lie else Count(words=words)


@pytest.mark.proves("001-10")
async def test_input_is_refused_before_and_output_after_the_call() -> None:
    """A tool has a JSON Schema for both sides, and neither is only documentation."""
    CALLS.clear()
    assert count.input_schema()["properties"]["text"] == {
        "description": "What to count.",
        "minLength": 1,
        "title": "Text",
        "type": "string",
    }
    assert count.output_schema()["properties"]["words"]["minimum"] == 0

    for wrong in ({}, {"text": ""}, {"text": 3}, {"text": "a", "more": 1}):
        with pytest.raises(InputRefused):
            await count.check(Context(), wrong)
    assert CALLS == []

    with pytest.raises(OutputRefused, match="words: Input should be greater than or equal to 0"):
        await count.check(Context(), {"text": "a b", "lie": True})
    assert CALLS == [{"text": "a b"}]

    assert await count.check(Context(), {"text": "a b"}) == {"words": 2}


async def test_output_of_another_kind_is_refused() -> None:
    """A tool that gives something else than it says is found at its first call."""

    @tool("text.other", effect="pure")
    async def other(ctx: Context) -> Text:
        """Give something else."""
        return Count(words=1)  # type: ignore[return-value]

    with pytest.raises(OutputRefused, match=r"text\.other: gave Count, not Text"):
        await other.check(Context(), {})


def test_declaration_is_the_function() -> None:
    """Name, effect, version, docstring and signature say everything."""
    assert (count.name, count.effect, count.version) == ("text.count", "pure", 3)
    assert count.about == "Count the words of a text."


class Bounds(ToolInputs):
    """Limits that several tools have."""

    words: Annotated[int, BY_AUTHOR, Field(ge=1)] = 10


async def test_shared_inputs_are_inputs_of_each_tool() -> None:
    """Limits that are declared once are checked, and kept from models, in every tool."""
    received: list[Bounds] = []

    @tool("text.bounded", effect="pure")
    async def bounded(ctx: Context, text: str, bounds: Bounds) -> Text:
        """Check a text against bounds."""
        received.append(bounds)
        return Text(text=text)

    assert list(bounded.input_schema()["properties"]) == ["text", "words"]
    assert bounded.author_inputs == {"words"}
    with pytest.raises(InputRefused, match="words: Input should be greater than or equal to 1"):
        await bounded.check(Context(), {"text": "a", "words": 0})
    await bounded.check(Context(), {"text": "a"})
    await bounded.check(Context(), {"text": "a", "words": 2})
    assert received == [Bounds(words=10), Bounds(words=2)]


def test_wrong_declaration_shows_when_the_program_starts() -> None:
    """Not when a run comes to it at night."""

    async def silent(ctx: Context) -> Text:
        return Text(text="")

    async def loose(ctx: Context, anything) -> Text:  # type: ignore[no-untyped-def]
        """Take an untyped parameter."""
        return Text(text="")

    async def wide(ctx: Context, **anything: str) -> Text:
        """Take any parameter."""
        return Text(text="")

    async def plain(ctx: Context) -> str:
        """Give no model."""
        return ""

    def slow(ctx: Context) -> Text:
        """Block."""
        return Text(text="")

    for function, reason in (
        (silent, "docstring"),
        (loose, "'anything' needs a type"),
        (wide, "'anything' needs a type"),
        (plain, "pydantic model"),
        (slow, "async function"),
    ):
        with pytest.raises(ToolMistake, match=reason):
            tool("some.tool", effect="pure")(function)  # type: ignore[arg-type]
    with pytest.raises(ToolMistake, match="lower-case words joined by dots"):
        tool("Some Tool", effect="pure")


async def test_context_by_hand_serves_to_call_a_tool_alone() -> None:
    """Tests of tools and one-off scripts need no engine."""
    said: list[str] = []
    context = Context(run="r", path="p", services={str: "a service"}, speak=said.append)

    await context.say("hello")
    context.record(model="m", prompt_tokens=3, seed=7)
    context.record(completion_tokens=2)

    assert said == ["hello"]
    assert context.service(str) == "a service"
    assert context.facts.model_dump() == {
        "model": "m",
        "prompt": None,
        "prompt_tokens": 3,
        "completion_tokens": 2,
        "cost": 0.0,
        "more": {"seed": 7},
    }
    with pytest.raises(ServiceMissing, match="no service 'int'"):
        context.service(int)
    with pytest.raises(ToolFailed, match="outside of a run"):
        await context.call("text.count", {}, at="x")


NOWHERE = Program("hearth-no-such-program", apt="no-such-package", others=("hearth-nor-this",))


@tool("text.elsewhere", effect="pure", needs=(NOWHERE, Package("no_such_module", extra="none")))
async def elsewhere(ctx: Context, text: str) -> Text:
    """Return a text on a machine that has everything."""
    CALLS.append({"text": text})
    return Text(text=text)


async def test_tool_says_what_its_machine_lacks_and_is_not_called() -> None:
    """A person reads what to install instead of an error of the import; wrong input is told first,
    because installing something does not help it.
    """
    CALLS.clear()
    reason = (
        "The program hearth-no-such-program is missing. Install it with `apt install "
        "no-such-package`. The Python package no_such_module is missing. It is in Hearth's extra "
        "`none`."
    )
    assert elsewhere.unavailable() == reason
    with pytest.raises(ToolUnavailable, match=r"text\.elsewhere is not available on this machine"):
        await elsewhere.check(Context(), {"text": "a"})
    with pytest.raises(InputRefused):
        await elsewhere.check(Context(), {})
    assert CALLS == []


def test_tool_is_available_where_one_of_its_programs_and_its_packages_are() -> None:
    """A browser has several names, and any of them does."""
    shell = Program("hearth-no-such-program", apt="none", others=("sh",))
    both = replace(elsewhere, needs=(shell, Package("pydantic", extra="agent")))
    assert both.unavailable() == ""
    assert str(shell.path()).endswith("/sh")
