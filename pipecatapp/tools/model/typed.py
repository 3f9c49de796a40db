"""An answer of a model that has a form."""

import json
import re
from typing import Annotated, Any

from pydantic import BaseModel, Field

from hearth.openai_api.reading import read_json
from pipecatapp.workflow import BY_AUTHOR, Context, ToolFailed, tool
from pipecatapp.workflow.syntax import Shape, ShapeError, shape

FENCE = re.compile(r"```[a-z]*\s*\n(.*?)\n?\s*```", re.DOTALL)
LONGEST_BROKEN = 20_000
"""Maximum characters of a broken answer that are sent for correction."""
SHOWN = 2000
"""Characters of a wrong answer that the model is shown again."""


class TypedAnswer(BaseModel):
    """The answer as data."""

    value: Any = Field(description="The answer, in the form that was asked for.")
    attempts: int = Field(description="How often the model was asked until it had that form.")
    model: str = Field(description="The model that really answered.")


@tool("llm.json", effect="llm", version=1)
async def typed(
    ctx: Context,
    messages: Annotated[
        list[dict[str, Any]],
        Field(description="The conversation, as OpenAI chat messages.", min_length=1),
    ],
    returns: Annotated[
        Any, Field(description="The form, in the short-hand of documents: `{title: text}`.")
    ],
    model: Annotated[
        str, BY_AUTHOR, Field(description="A model that the gateway offers.")
    ] = "auto",
    attempts: Annotated[
        int,
        BY_AUTHOR,
        Field(description="How often to ask until the answer has the form.", ge=1, le=10),
    ] = 3,
    temperature: Annotated[float | None, Field(description="How freely it samples.", ge=0)] = None,
    max_tokens: Annotated[
        int | None, BY_AUTHOR, Field(description="Longest answer, in tokens.", gt=0)
    ] = None,
    fallback: Annotated[
        list[str],
        BY_AUTHOR,
        Field(description="Models to ask instead, in this order, when it cannot answer."),
    ] = [],  # noqa: B006
    repair: Annotated[
        str,
        BY_AUTHOR,
        Field(description="Model that corrects invalid JSON. Empty: the same model."),
    ] = "",
) -> TypedAnswer:
    """Ask a model for data of a given form; an answer without that form is sent back to it."""
    form = form_of(returns)
    talk = instructed(messages, instruction(form))
    given: dict[str, Any] = {"model": model, "response_format": response_format(form)}
    given |= {"fallback": fallback} if fallback else {}
    sampling = {"temperature": temperature, "max_tokens": max_tokens}
    given |= {name: value for name, value in sampling.items() if value is not None}
    wrong, asked = "", {**given, "messages": talk}
    for attempt in range(1, attempts + 1):
        said = await ctx.call("llm", asked, at=f"ask[{attempt}]", say=lambda _text: None)
        try:
            value = form.check(read_json(inside(said["text"])))
        except (ValueError, RecursionError) as error:
            wrong = str(error)
            if repair and isinstance(error, json.JSONDecodeError):
                asked = {**given, "model": repair, "messages": mending(said["text"], wrong, form)}
                continue
            talk += [
                {"role": "assistant", "content": said["text"][:SHOWN]},
                {"role": "user", "content": f"That is wrong: {wrong}. {instruction(form)}"},
            ]
            asked = {**given, "messages": talk}
        else:
            ctx.record(model=said["model"])
            return TypedAnswer(value=value, attempts=attempt, model=said["model"])
    raise ToolFailed(f"The model gave no answer of the form in {attempts} attempts: {wrong}.")


def mending(text: str, wrong: str, form: Shape) -> list[dict[str, Any]]:
    """Return the messages that ask a small model for a correction: the broken text only."""
    told = f"Correct this text so that it is valid JSON. Change nothing else. {instruction(form)}"
    broken = f"It fails with: {wrong}.\n\n<text>\n{text[:LONGEST_BROKEN]}\n</text>"
    return [{"role": "system", "content": told}, {"role": "user", "content": broken}]


def form_of(returns: Any) -> Shape:
    """Return the type of a short-hand notation."""
    try:
        return shape(returns)
    except ShapeError as error:
        raise ToolFailed(f"`returns` is not a valid type: {error}.") from error


def response_format(form: Shape) -> dict[str, Any]:
    """Return the response format with which an engine enforces the schema."""
    return {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": form.schema(), "strict": True},
    }


def instruction(form: Shape) -> str:
    """The same for engines that take no notice of it."""
    schema = json.dumps(form.schema(), ensure_ascii=False)
    return f"Answer with JSON only, of this JSON Schema: {schema}"


def instructed(messages: list[dict[str, Any]], told: str) -> list[dict[str, Any]]:
    """Return the conversation with one system message at the start, which many templates
    require."""
    first, *rest = messages
    if first.get("role") == "system" and isinstance(first.get("content"), str):
        return [{**first, "content": f"{first['content']}\n\n{told}"}, *rest]
    return [{"role": "system", "content": told}, *messages]


def inside(text: str) -> str:
    """The JSON of an answer, out of a fence if there is one."""
    fenced = FENCE.search(text)
    return fenced[1] if fenced else text
