"""A question to a person, or to a model in a person's place."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from pipecatapp.workflow import BY_AUTHOR, Context, Question, ToolFailed, tool


class Answered(BaseModel):
    """The answer, with its author and time."""

    answer: Any = Field(description="One of the choices, or of the type that was asked for.")
    by: str = Field(
        description="The person who answered, `model <id>` for a model, empty after a timeout."
    )
    at: str = Field(description="When: ISO 8601, UTC; empty for a model.")


@tool("human.ask", effect="human", version=1)
async def ask(
    ctx: Context,
    question: Annotated[str, Field(description="The decision to make.", min_length=1)],
    choices: Annotated[
        list[str], Field(description="The answers to choose from; none: any answer.")
    ] = [],  # noqa: B006
    returns: Annotated[
        Any, Field(description="Type of the answer, in the short-hand of documents.")
    ] = None,
    show: Annotated[Any, Field(description="Data to show with the question.")] = None,
    after: Annotated[
        float | None,
        BY_AUTHOR,
        Field(description="Seconds to wait for an answer.", gt=0),
    ] = None,
    otherwise: Annotated[
        Any, BY_AUTHOR, Field(description="The answer then; without one the node fails.")
    ] = None,
    by: Annotated[
        Literal["person", "llm"],
        BY_AUTHOR,
        Field(description="The person or model to ask."),
    ] = "person",
    model: Annotated[str, BY_AUTHOR, Field(description="The model, if one is asked.")] = "auto",
) -> Answered:
    """Ask a person and wait for the answer; the run waits without a time limit."""
    asked = Question(text=question, choices=choices, returns=returns, show=show, after=after)
    if by == "llm":
        return await ask_model(ctx, asked, model)
    if otherwise is not None:
        asked = asked.model_copy(update={"otherwise": otherwise})
    reply = await ctx.ask(asked)
    return Answered(answer=reply.value, by=reply.by, at=reply.at)


async def ask_model(ctx: Context, question: Question, model: str) -> Answered:
    """The same question to a model, whose answer has to have the same form."""
    form = f"one of {', '.join(question.choices)}" if question.choices else question.returns
    shown = f"\n\n{question.show}" if question.show is not None else ""
    given = {
        "messages": [{"role": "user", "content": f"{question.text}{shown}"}],
        "returns": {"answer": form or "text"},
        "model": model,
    }
    told = await ctx.call("llm.json", given, at="model", say=lambda _text: None)
    answer = told["value"]["answer"]
    if question.choices and answer not in question.choices:
        raise ToolFailed(f"The model answered {answer!r}, which is none of the choices.")
    return Answered(answer=answer, by=f"model {told['model']}", at="")
