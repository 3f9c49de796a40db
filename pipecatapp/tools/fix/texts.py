"""The tools that repair texts which models write wrongly."""

import asyncio
from typing import Annotated, Any, Final

from pydantic import BaseModel, Field

from pipecatapp.tools.code.errors import ProgramError
from pipecatapp.tools.code.errors.result import program_error
from pipecatapp.tools.fix.edits import LARGEST, CannotRepair, Edits, TextChange
from pipecatapp.tools.fix.json_text import ENDED, repair_json
from pipecatapp.tools.fix.markdown_text import repair_markdown
from pipecatapp.tools.fix.yaml_text import repair_yaml
from pipecatapp.workflow import Context, ToolFailed, tool
from pipecatapp.workflow.syntax import ShapeError, shape

Text = Annotated[str, Field(description="The text, such as an answer of a model.")]
CUT: Final = 2000
"""Characters of a value that an error shows."""


class Repaired(BaseModel):
    """The result of a repair. A text that cannot be repaired is not a failure of the tool."""

    ok: bool = Field(description="Whether the text is valid now.")
    text: str = Field(description="The repaired text; as it was where it cannot be repaired.")
    changes: list[TextChange] = Field(
        description="Every change, in the order of the repair; empty for a valid text."
    )
    error: ProgramError | None = Field(
        description="The first problem that is left, in the form of code.run."
    )


class RepairedJson(Repaired):
    """The result of a repair of JSON, with its value."""

    value: Any = Field(description="The JSON as data; null where it is not valid.")
    truncated: bool = Field(
        description="Whether the text ended early: its last value may be incomplete."
    )


@tool("fix.json", effect="pure", version=1)
async def fix_json(
    ctx: Context,
    text: Text,
    returns: Annotated[
        Any,
        Field(
            description="The form to check the value against, in the short-hand of documents:"
            " `{title: text}`; without it any JSON is valid."
        ),
    ] = "any",
) -> RepairedJson:
    """Repair JSON: fences and prose around it, commas, comments, quotes, keys, missing brackets.

    Python's constants become those of JSON; NaN and Infinity become null. No model is called.
    """
    try:
        form = shape(returns)
    except ShapeError as error:
        raise ToolFailed(f"`returns` is not a valid type: {error}.") from error
    try:
        edits, value = await asyncio.to_thread(repair_json, _checked(text))
    except CannotRepair as error:
        return RepairedJson(**_failed(text, error, "JSONDecodeError"), value=None, truncated=False)
    truncated = any(change.reason.startswith(ENDED) for change in edits.changes)
    try:
        value = form.check(value)
    except ShapeError as error:
        wrong = program_error("SchemaError", str(error)[:CUT])
        return RepairedJson(
            ok=False, text=edits.text, changes=edits.changes, error=wrong, value=None,
            truncated=truncated,
        )  # fmt: skip
    return RepairedJson(**_repaired(edits), value=value, truncated=truncated)


@tool("fix.yaml", effect="pure", version=1)
async def fix_yaml(ctx: Context, text: Text) -> Repaired:
    """Repair YAML: fences, tabs, colons in values, missing spaces and quotes, indentation.

    No model is called.
    """
    try:
        return Repaired(**_repaired(await asyncio.to_thread(repair_yaml, _checked(text))))
    except CannotRepair as error:
        return Repaired(**_failed(text, error, "YAMLError"))


@tool("fix.markdown", effect="pure", version=1)
async def fix_markdown(ctx: Context, text: Text) -> Repaired:
    """Repair Markdown: unclosed fences, emphasis and links, tables, headings and lists.

    Only what is certain is changed, and nothing within code. No model is called.
    """
    try:
        edits, problems = await asyncio.to_thread(repair_markdown, _checked(text))
    except CannotRepair as wrong:
        return Repaired(**_failed(text, wrong, "MarkdownError"))
    error = None
    if problems:
        error = program_error("MarkdownError", str(problems[0]), line=problems[0].line)
    return Repaired(ok=not problems, text=edits.text, changes=edits.changes, error=error)


def _checked(text: str) -> str:
    """Return the text; raises `CannotRepair` for one that is too long."""
    if len(text) > LARGEST:
        raise CannotRepair(f"The text is longer than {LARGEST} characters")
    return text


def _repaired(edits: Edits) -> dict[str, Any]:
    return {"ok": True, "text": edits.text, "changes": edits.changes, "error": None}


def _failed(text: str, error: CannotRepair, kind: str) -> dict[str, Any]:
    wrong = program_error(kind, f"{error}.", line=error.line)
    return {"ok": False, "text": text, "changes": [], "error": wrong}
